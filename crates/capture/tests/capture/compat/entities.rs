//! Subscriptions to entities, and what an application says of its entities.

use tidewire_capture::Source;

use super::{answer, capture_from, plan, refused, rows, start, value};

const LOG_ONE: &str = "INSERT INTO app.logging (entity_code, entity_id, action)
    VALUES ('project', 'aaaaaaaa-0000-4000-8000-000000000001', 1) RETURNING id";

async fn pending_until_sent(source: Source) {
    let mut fixture = start().await;
    fixture.run(&format!("BEGIN; {LOG_ONE}; ROLLBACK")).await;
    let id = value(&fixture, LOG_ONE).await;
    let state = format!(
        "SELECT sync_status, sync_processed_ts >= created_ts FROM app.logging WHERE id = '{id}'"
    );
    assert_eq!(rows(&fixture, &state).await, [["pending", ""]]);
    capture_from(&mut fixture, source).await;
    fixture.caught_up().await;
    assert_eq!(rows(&fixture, &state).await, [["sent", "t"]]);
    let told = "SELECT count(*) FROM tidewire.log WHERE entity_code = 'project'";
    assert_eq!(value(&fixture, told).await, "1");
    let mark = format!("UPDATE app.logging SET sync_status = 'processing' WHERE id = '{id}'");
    fixture.run(&mark).await;
    assert_eq!(rows(&fixture, &state).await, [["sent", "t"]], "it stays so");
    let again = format!("UPDATE app.logging SET sync_status = 'pending' WHERE id = '{id}'");
    assert_eq!(answer(&fixture, &again).await.1, 1);
    fixture.caught_up().await;
    assert_eq!(rows(&fixture, &state).await, [["sent", "t"]]);
    assert_eq!(value(&fixture, told).await, "2", "and was told once more");
    assert_eq!(answer(&fixture, &format!("DELETE FROM app.logging WHERE id = '{id}'")).await.1, 1);
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_change_is_pending_until_the_sequencer_has_sent_it() {
    pending_until_sent(Source::Outbox).await;
}

#[tokio::test]
async fn a_change_is_pending_until_it_is_read_from_the_write_ahead_log() {
    pending_until_sent(Source::Wal).await;
}

#[tokio::test]
async fn what_cannot_be_told_says_so_and_what_was_dealt_with_is_not_told() {
    let mut fixture = start().await;
    fixture
        .run(
            "INSERT INTO app.logging (entity_code, entity_id, action, sync_status)
        VALUES ('project', gen_random_uuid(), 1, 'sent')",
        )
        .await;
    fixture
        .run("ALTER TABLE tidewire.log ADD CONSTRAINT no_tasks CHECK (entity_code <> 'task')")
        .await;
    fixture.run(&LOG_ONE.replace("project", "task")).await;
    capture_from(&mut fixture, Source::Outbox).await;
    fixture.until("SELECT count(*) = 1 FROM tidewire.dead_letters").await;
    let states = "SELECT entity_code, sync_status FROM app.logging ORDER BY 1";
    assert_eq!(rows(&fixture, states).await, [["project", "sent"], ["task", "failed"]]);
    assert_eq!(
        value(&fixture, "SELECT count(*) FROM tidewire.log WHERE control IS NULL").await,
        "0"
    );
    let change = "UPDATE app.logging SET action = 3";
    assert_eq!(refused(&fixture, change).await.0, "0A000");
    assert_eq!(refused(&fixture, &LOG_ONE.replace("project", "a//b")).await.0, "22023");
    fixture.tear_down().await;
}

/// Those who poll claim each row once, though the rows of a view cannot be locked.
#[tokio::test]
async fn two_who_claim_do_not_both_get_a_change() {
    let fixture = start().await;
    fixture.run(LOG_ONE).await;
    let claim = "UPDATE app.logging SET sync_status = 'processing' WHERE sync_status = 'pending'";
    let other = fixture.database.connect().await;
    fixture.run("BEGIN").await;
    assert_eq!(answer(&fixture, claim).await.1, 1);
    let waits = other.execute(claim, &[]);
    let first_ends = async {
        let waits = "SELECT count(*) > 0 FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE NOT granted AND datname = current_database()";
        fixture.until(waits).await;
        fixture.run("COMMIT").await;
    };
    let (claimed, ()) = tokio::join!(waits, first_ends);
    assert_eq!(claimed.expect("the other's claim"), 0);
    fixture.tear_down().await;
}

#[tokio::test]
async fn ids_that_are_no_uuids_are_left_out() {
    let fixture = start().await;
    fixture
        .run(
            "INSERT INTO tidewire.rxdb_subscription
            (connection_id, entity_code, entity_id, user_id, node_id) VALUES
        ('c1', 'project', '7', 'ann', 'n'),
        ('c1', 'project', 'AAAAAAAA-0000-4000-8000-000000000001', gen_random_uuid(), 'n'),
        (repeat('c', 51), 'project', gen_random_uuid(), gen_random_uuid(), 'n');
        INSERT INTO app.rxdb_subscription (user_id, entity_code, entity_id, connection_id)
        VALUES (gen_random_uuid(), 'project', 'aaaaaaaa-0000-4000-8000-000000000001', 'c2')",
        )
        .await;
    let shown = "SELECT connection_id FROM app.rxdb_subscription
        WHERE entity_id = 'aaaaaaaa-0000-4000-8000-000000000001' ORDER BY 1";
    assert_eq!(rows(&fixture, shown).await, [["c1"], ["c2"]]);
    let again = "INSERT INTO app.rxdb_subscription SELECT * FROM app.rxdb_subscription";
    assert_eq!(refused(&fixture, again).await.0, "23505");
    fixture.tear_down().await;
}

#[tokio::test]
async fn stale_subscriptions_of_living_connections_stay() {
    let fixture = start().await;
    fixture
        .run(
            "INSERT INTO tidewire.nodes VALUES
            ('alive', '', '', 0, tidewire.now_ms() + 60000, 0, 0, 0, 0),
            ('dead', '', '', 0, tidewire.now_ms() - 1, 0, 0, 0, 0);
        INSERT INTO tidewire.rxdb_subscription
            (connection_id, entity_code, entity_id, user_id, node_id, subscribed_at)
        SELECT name, 'project', id, gen_random_uuid(), node, now() - interval '30 hours'
        FROM (VALUES ('a', 'alive'), ('a', NULL), ('d', 'dead'), ('s', NULL)) AS made (name, node)
        CROSS JOIN LATERAL (SELECT gen_random_uuid() AS id WHERE name = name) AS ids",
        )
        .await;
    assert_eq!(value(&fixture, "SELECT app.cleanup_stale_subscriptions(48)").await, "0");
    assert_eq!(value(&fixture, "SELECT app.cleanup_stale_subscriptions()").await, "2");
    let left = "SELECT DISTINCT connection_id FROM app.rxdb_subscription";
    assert_eq!(rows(&fixture, left).await, [["a"]]);
    fixture.tear_down().await;
}

#[tokio::test]
async fn asking_who_subscribes_uses_the_indexes() {
    let fixture = start().await;
    fixture.run("INSERT INTO tidewire.rxdb_subscription (connection_id, entity_code, entity_id, user_id)
        SELECT 'c' || n % 500, 'project', gen_random_uuid(), md5((n % 500)::text)::uuid
        FROM generate_series(1, 20000) AS n;
        INSERT INTO tidewire.compat_logging
        SELECT gen_random_uuid(), 'project', gen_random_uuid(), 1, NULL, NULL, now(), n
        FROM generate_series(1, 20000) AS n;
        ANALYZE tidewire.rxdb_subscription; ANALYZE tidewire.compat_logging;
        ANALYZE tidewire.staging; ANALYZE tidewire.dead_letters").await;
    let id = "aaaaaaaa-0000-4000-8000-000000000001";
    for sql in [
        format!(
            "SELECT user_id, connection_id FROM app.rxdb_subscription
            WHERE entity_code = 'project' AND entity_id = '{id}'"
        ),
        format!(
            "DELETE FROM app.rxdb_subscription WHERE user_id = '{id}' AND entity_code = 'project'"
        ),
        "DELETE FROM app.rxdb_subscription WHERE connection_id = 'c7'".to_owned(),
        "SELECT id FROM app.logging WHERE sync_status = 'pending' AND action != 0 LIMIT 500"
            .to_owned(),
    ] {
        let plan = plan(&fixture, &sql).await;
        let scans = plan.contains("Seq Scan on rxdb_subscription")
            || plan.contains("Seq Scan on compat_logging");
        assert!(!scans, "{sql}:\n{plan}");
    }
    fixture.tear_down().await;
}

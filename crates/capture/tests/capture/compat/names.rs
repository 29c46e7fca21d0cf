//! Who makes the names, where, and what is left alone.

use tidewire_store::StoreError;
use tidewire_store_postgres::CompatSchemas;
use tidewire_store_postgres::testing::fresh_database;

use super::{make, refused, usual, value};
use crate::fixture::Fixture;

#[tokio::test]
async fn names_are_made_once_and_brought_up_to_date_after_that() {
    let fixture = Fixture::start_without_capture().await;
    let made = make(&fixture, &usual()).await.expect("the names are made");
    assert!(made.iter().all(|name| name.new), "{made:?}");
    let names: Vec<&str> = made.iter().map(|name| name.name.as_str()).collect();
    assert!(names.contains(&"app.bulk_subscribe") && names.contains(&"public.outbox"), "{names:?}");
    fixture.run("CREATE ROLE compat_reader").await;
    fixture.run("GRANT SELECT, INSERT ON outbox TO compat_reader").await;
    fixture
        .run(
            "INSERT INTO app.logging (entity_code, entity_id, action)
        VALUES ('project', gen_random_uuid(), 1)",
        )
        .await;
    let again = make(&fixture, &usual()).await.expect("the names are made again");
    assert!(again.iter().all(|name| !name.new), "{again:?}");
    assert_eq!(value(&fixture, "SELECT count(*) FROM app.logging").await, "1", "nothing is lost");
    let granted = "SELECT has_table_privilege('compat_reader', 'outbox', 'INSERT')";
    assert_eq!(value(&fixture, granted).await, "t", "what was granted stays so");
    fixture.run("DROP OWNED BY compat_reader; DROP ROLE compat_reader").await;
    fixture.tear_down().await;
}

#[tokio::test]
async fn what_others_have_made_is_named_and_left_alone() {
    let database = fresh_database().await;
    database.run(include_str!("tables.sql")).await;
    let function =
        "CREATE FUNCTION app.bulk_subscribe(text) RETURNS int LANGUAGE sql AS 'SELECT 1'";
    database.run(function).await;
    let fixture = Fixture::start_in(database).await;
    let refusal = make(&fixture, &usual()).await.expect_err("the names are taken");
    let StoreError::Refused(text) = refusal else { panic!("{refusal:?}") };
    let taken = "app.rxdb_subscription, app.bulk_subscribe, app.logging, public.outbox, \
                 public.outbox_message_t, public.api_keys, public.log_counter, \
                 public.consumer_offsets are there already";
    assert!(text.starts_with(taken), "{text}");
    assert!(text.contains("--compat-schema and --compat-public"), "{text}");
    let views = "SELECT count(*) FROM pg_class WHERE relkind = 'v' AND relnamespace IN
        ('app'::regnamespace, 'public'::regnamespace)";
    assert_eq!(value(&fixture, views).await, "0", "nothing was changed");
    fixture.tear_down().await;
}

#[tokio::test]
async fn schemas_may_have_any_name() {
    let fixture = Fixture::start_without_capture().await;
    let schemas =
        CompatSchemas { app: "compat_public".to_owned(), public: "My \"odd\" one".to_owned() };
    let made = make(&fixture, &schemas).await.expect("the names are made");
    assert_eq!(made[0].name, "compat_public.rxdb_subscription");
    assert_eq!(made[8].name, r#""My ""odd"" one".outbox"#);
    fixture
        .run(
            r#"INSERT INTO "My ""odd"" one".outbox (table_name, operation, after_data)
        VALUES ('orders', 'INSERT', '{}');
        SELECT compat_public.bulk_unsubscribe(gen_random_uuid(), 'project', NULL)"#,
        )
        .await;
    assert_eq!(value(&fixture, "SELECT to_regnamespace('app') IS NULL").await, "t");
    let own = CompatSchemas { public: "tidewire".to_owned(), ..usual() };
    let refusal = make(&fixture, &own).await.expect_err("that schema is taken");
    assert!(matches!(refusal, StoreError::Refused(_)), "{refusal:?}");
    fixture.tear_down().await;
}

/// Views and functions work with their owner's rights, so that a role needs none on Tidewire's tables.
#[tokio::test]
async fn a_role_needs_rights_on_the_names_alone() {
    let fixture = super::start().await;
    let role = format!("compat_{}", fixture.database.name);
    fixture
        .run(&format!("CREATE ROLE {role}; GRANT USAGE ON SCHEMA app TO {role}; SET ROLE {role}"))
        .await;
    let insert = "INSERT INTO outbox (table_name, operation, after_data)
        VALUES ('orders', 'INSERT', '{}')";
    let calls = [
        insert,
        "INSERT INTO outbox_message_t (payload) VALUES ('1')",
        "INSERT INTO app.logging (entity_code, entity_id, action)
            VALUES ('project', gen_random_uuid(), 1)",
        "SELECT app.bulk_subscribe(gen_random_uuid(), 'c', 'project', ARRAY[gen_random_uuid()])",
        "SELECT * FROM app.rxdb_subscription",
        "DELETE FROM app.rxdb_subscription",
        "SELECT * FROM outbox; SELECT * FROM outbox_message_t; SELECT * FROM app.logging",
        "SELECT * FROM api_keys",
    ];
    for call in calls {
        assert_eq!(refused(&fixture, call).await.0, "42501", "{call} is not for everyone");
    }
    fixture
        .run(&format!(
            "RESET ROLE;
        GRANT ALL ON ALL TABLES IN SCHEMA app TO {role};
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA app TO {role};
        GRANT ALL ON outbox, outbox_message_t, api_keys TO {role}; SET ROLE {role}"
        ))
        .await;
    for call in calls {
        fixture.run(call).await;
    }
    fixture.run(&format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")).await;
    fixture.tear_down().await;
}

/// I6: the functions behind the triggers are their owner's, and a trigger is made by whoever may execute
/// its function.
#[tokio::test]
async fn nobody_makes_a_trigger_of_what_is_behind_the_names() {
    let fixture = super::start().await;
    let role = format!("compat_{}", fixture.database.name);
    fixture
        .run(&format!(
            "CREATE ROLE {role}; GRANT USAGE ON SCHEMA tidewire TO {role};
        GRANT TEMPORARY ON DATABASE {} TO {role}; SET ROLE {role};
        CREATE TEMP TABLE k (id int, name text, key_hash text, scopes jsonb, is_active bool)",
            fixture.database.name
        ))
        .await;
    let trigger = "CREATE TRIGGER t BEFORE INSERT ON k
        FOR EACH ROW EXECUTE FUNCTION tidewire.compat_key_insert()";
    assert_eq!(refused(&fixture, trigger).await.0, "42501");
    let open = "SELECT coalesce(string_agg(proname, ' '), '') FROM pg_proc
        WHERE pronamespace = 'tidewire'::regnamespace AND prosecdef
          AND prorettype = 'trigger'::regtype AND has_function_privilege(oid, 'EXECUTE')";
    assert_eq!(value(&fixture, open).await, "", "trigger functions that anyone may use");
    fixture.run(&format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")).await;
    fixture.tear_down().await;
}

/// Where new tables are open to some role by default, these are not; what is granted on them stays.
#[tokio::test]
async fn default_privileges_open_nothing() {
    let fixture = Fixture::start_without_capture().await;
    let role = format!("compat_{}", fixture.database.name);
    fixture
        .run(&format!(
            "CREATE ROLE {role}; CREATE SCHEMA app;
        GRANT USAGE ON SCHEMA app TO {role};
        ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {role};
        ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO {role}"
        ))
        .await;
    make(&fixture, &usual()).await.expect("the names are made");
    let calls = [
        "SELECT * FROM api_keys",
        "SELECT * FROM outbox",
        "SELECT * FROM app.get_subscription_stats()",
    ];
    fixture.run(&format!("SET ROLE {role}")).await;
    for call in calls {
        assert_eq!(refused(&fixture, call).await.0, "42501", "{call}");
    }
    fixture.run(&format!("RESET ROLE; GRANT SELECT ON outbox TO {role}")).await;
    make(&fixture, &usual()).await.expect("the names are made again");
    fixture.run(&format!("SET ROLE {role}; SELECT * FROM outbox")).await;
    assert_eq!(refused(&fixture, calls[0]).await.0, "42501", "and nothing else");
    fixture
        .run(&format!(
            "RESET ROLE;
        ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM {role};
        ALTER DEFAULT PRIVILEGES REVOKE ALL ON FUNCTIONS FROM {role};
        DROP OWNED BY {role}; DROP ROLE {role}"
        ))
        .await;
    fixture.tear_down().await;
}

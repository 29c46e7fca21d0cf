-- The statements of the systems whose SQL is to run, as their documents print them, with real ids for
-- placeholders. A line that begins with "--- " names the statement below it.

--- subscribe
SELECT app.bulk_subscribe(
    '11111111-1111-4111-8111-111111111111'::UUID,
    'conn-123',
    'project',
    ARRAY['aaaaaaaa-0000-4000-8000-000000000001', 'aaaaaaaa-0000-4000-8000-000000000002']::UUID[]
);

--- subscribe by the service
SELECT app.bulk_subscribe(
        '22222222-2222-4222-8222-222222222222'::UUID,
        'conn-456',
        'project',
        ARRAY['aaaaaaaa-0000-4000-8000-000000000001', 'aaaaaaaa-0000-4000-8000-000000000003']::UUID[]
      ) as bulk_subscribe

--- unsubscribe
SELECT app.bulk_unsubscribe(
    '11111111-1111-4111-8111-111111111111'::UUID,
    'project',
    ARRAY['aaaaaaaa-0000-4000-8000-000000000001', 'aaaaaaaa-0000-4000-8000-000000000002']::UUID[]
);

--- unsubscribe by the service
SELECT app.bulk_unsubscribe(
          '22222222-2222-4222-8222-222222222222'::UUID,
          'project',
          ARRAY['aaaaaaaa-0000-4000-8000-000000000003']::UUID[]
        ) as bulk_unsubscribe

--- unsubscribe from a kind
DELETE FROM app.rxdb_subscription
        WHERE user_id = '22222222-2222-4222-8222-222222222222'::UUID
          AND entity_code = 'project'

--- disconnect
SELECT app.cleanup_connection_subscriptions('conn-123');

--- disconnect by the service
SELECT app.cleanup_connection_subscriptions('conn-456')
        as cleanup_connection_subscriptions

--- subscribers of one
SELECT user_id, connection_id
FROM app.rxdb_subscription
WHERE entity_code = 'project'
  AND entity_id = 'aaaaaaaa-0000-4000-8000-000000000001';

--- subscribers of several
SELECT * FROM app.get_batch_subscribers(
    'project',
    ARRAY['aaaaaaaa-0000-4000-8000-000000000001', 'aaaaaaaa-0000-4000-8000-000000000002', 'aaaaaaaa-0000-4000-8000-000000000003']::UUID[]
);

--- subscriptions of a user
SELECT entity_code, COUNT(*)::int as count
      FROM app.rxdb_subscription
      WHERE user_id = '11111111-1111-4111-8111-111111111111'::UUID
      GROUP BY entity_code

--- stale
SELECT app.cleanup_stale_subscriptions(24);

--- stale by the service
SELECT app.cleanup_stale_subscriptions(24)
        as cleanup_stale_subscriptions

--- size
SELECT pg_size_pretty(pg_total_relation_size('app.rxdb_subscription'));

--- distribution
SELECT * FROM app.get_subscription_stats();

--- pending changes
SELECT entity_code, entity_id, action
FROM app.logging
WHERE sync_status = 'pending' AND action != 0
LIMIT 500

--- claim changes
UPDATE app.logging
    SET sync_status = 'processing'
    WHERE id IN (
      SELECT id FROM app.logging
      WHERE created_ts > '2020-01-01'
        AND sync_status = 'pending'
        AND action != 0
      ORDER BY created_ts
      LIMIT 500
      FOR UPDATE SKIP LOCKED
    )
    RETURNING id, entity_code, entity_id, action

--- mark changes
UPDATE app.logging
    SET sync_status = 'sent', sync_processed_ts = now()
    WHERE id = ANY('{bbbbbbbb-0000-4000-8000-000000000001}'::UUID[])

--- the counter's row
INSERT INTO log_counter (id, next_offset) VALUES (1, 1);

--- reserve offsets
UPDATE log_counter SET next_offset = next_offset + 2 WHERE id = 1 RETURNING next_offset - 2;

--- claim offsets
WITH counter_tip AS (
    SELECT (next_offset - 1) AS highest_committed_offset FROM log_counter WHERE id = 1
),
to_claim AS (
    SELECT group_id, next_offset, 
           LEAST(100, GREATEST(0, (SELECT highest_committed_offset FROM counter_tip) - next_offset + 1)) AS delta
    FROM consumer_offsets 
    WHERE group_id = 'user-query-group' AND topic_id = 1 
    FOR UPDATE
),
upd AS (
    UPDATE consumer_offsets c SET next_offset = c.next_offset + t.delta
    FROM to_claim t 
    WHERE c.group_id = t.group_id AND c.topic_id = 1
    RETURNING t.next_offset AS start_offset, (c.next_offset - 1) AS end_offset
)
SELECT start_offset, end_offset FROM upd;

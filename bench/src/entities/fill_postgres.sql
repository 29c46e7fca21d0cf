INSERT INTO tidewire.rxdb_subscription (connection_id, entity_code, entity_id, user_id)
SELECT 'c' || u, 'project',
       '00000000-0000-4000-8000-' || lpad((((u * {each} + n) * 7919) % {entities})::text, 12, '0'),
       '00000000-0000-4000-8000-' || lpad(u::text, 12, '0')
FROM generate_series(1, {users}::bigint) AS u, generate_series(1, {each}) AS n
ON CONFLICT DO NOTHING

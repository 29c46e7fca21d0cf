WITH RECURSIVE
    users (u) AS (SELECT 1 UNION ALL SELECT u + 1 FROM users WHERE u < ?1),
    each (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM each WHERE n < ?2)
INSERT OR IGNORE INTO tidewire_rxdb_subscription (connection_id, entity_code, entity_id, user_id)
SELECT 'c' || u, 'project',
       '00000000-0000-4000-8000-' || printf('%012d', ((u * ?2 + n) * 7919) % ?3),
       '00000000-0000-4000-8000-' || printf('%012d', u)
FROM users, each

SELECT entity_code, count(*), count(DISTINCT entity_id), 1::bigint
FROM tidewire.rxdb_subscription
WHERE user_id = $1
GROUP BY entity_code
ORDER BY entity_code

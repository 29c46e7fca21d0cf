SELECT entity_code, count(*), count(DISTINCT entity_id), count(DISTINCT user_id)
FROM tidewire.rxdb_subscription
GROUP BY entity_code
ORDER BY entity_code

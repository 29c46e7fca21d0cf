SELECT entity_code, count(*), count(DISTINCT entity_id), 1
FROM main.tidewire_rxdb_subscription
WHERE user_id = ?1
GROUP BY entity_code
ORDER BY entity_code

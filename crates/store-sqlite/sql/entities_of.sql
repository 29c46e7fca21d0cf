SELECT entity_code, entity_id FROM main.tidewire_rxdb_subscription
WHERE connection_id = ?1
ORDER BY entity_code, entity_id

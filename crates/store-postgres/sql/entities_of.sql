SELECT entity_code, entity_id FROM tidewire.rxdb_subscription
WHERE connection_id = $1
ORDER BY entity_code, entity_id

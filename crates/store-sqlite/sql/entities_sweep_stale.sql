DELETE FROM main.tidewire_rxdb_subscription
WHERE (connection_id, entity_code, entity_id) IN (
    SELECT connection_id, entity_code, entity_id FROM main.tidewire_rxdb_subscription
    WHERE node_id IS NULL AND subscribed_at < ?1
    LIMIT ?2
)

-- What SQL made is the node's from here on.
INSERT INTO main.tidewire_rxdb_subscription (
    connection_id, entity_code, entity_id, user_id, host_id, node_id, subscribed_at
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (connection_id, entity_code, entity_id) DO UPDATE SET node_id = excluded.node_id
    WHERE node_id IS NULL

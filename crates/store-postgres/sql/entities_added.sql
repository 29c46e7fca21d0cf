-- What SQL made is the node's from here on.
INSERT INTO tidewire.rxdb_subscription AS subscription (
    connection_id, entity_code, entity_id, user_id, host_id, node_id
)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
ON CONFLICT (connection_id, entity_code, entity_id) DO UPDATE SET node_id = excluded.node_id
    WHERE subscription.node_id IS NULL

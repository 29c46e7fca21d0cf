-- What SQL made is the node's from here on.
UPDATE tidewire.rxdb_subscription AS subscription
SET node_id = adopted.node_id
FROM unnest($1::text[], $2::text[]) AS adopted (connection_id, node_id)
WHERE subscription.connection_id = adopted.connection_id AND subscription.node_id IS NULL

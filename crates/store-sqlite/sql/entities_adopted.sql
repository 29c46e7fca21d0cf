-- What SQL made is the node's from here on.
UPDATE main.tidewire_rxdb_subscription SET node_id = ?2 WHERE connection_id = ?1 AND node_id IS NULL

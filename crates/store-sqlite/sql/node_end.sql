UPDATE main.tidewire_nodes SET lease_until = 0 WHERE node_id = ?1

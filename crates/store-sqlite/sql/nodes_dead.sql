SELECT node_id FROM main.tidewire_nodes WHERE lease_until <= ?1

SELECT node_id FROM tidewire_nodes WHERE lease_until <= ?1

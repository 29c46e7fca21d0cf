SELECT min(position) FROM tidewire_nodes WHERE lease_until > ?1

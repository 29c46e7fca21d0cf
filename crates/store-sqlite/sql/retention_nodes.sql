SELECT min(position) FROM main.tidewire_nodes WHERE lease_until > ?1

UPDATE main.tidewire_entities_by_node SET by_node = ?1

UPDATE main.tidewire_watches SET known_offset = max(known_offset, ?2) WHERE table_name = ?1

UPDATE main.tidewire_watches SET events = events + ?2, last_offset = ?3 WHERE table_name = ?1

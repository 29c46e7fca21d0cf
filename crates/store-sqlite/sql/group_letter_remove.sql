DELETE FROM main.tidewire_consumer_dead_letters WHERE group_id = ?1 AND c_offset = ?2

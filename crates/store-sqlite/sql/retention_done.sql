DELETE FROM main.tidewire_trims WHERE stream_id = ?1 AND after_offset = ?2

DELETE FROM main.tidewire_streams WHERE stream_id = ?1

DELETE FROM main.tidewire_stream_producers WHERE stream_id = ?1

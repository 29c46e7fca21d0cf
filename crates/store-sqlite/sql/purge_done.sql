DELETE FROM main.tidewire_stream_purges WHERE stream_id = ?1 AND after_offset = ?2

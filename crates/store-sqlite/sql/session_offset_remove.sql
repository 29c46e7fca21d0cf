DELETE FROM main.tidewire_session_offsets WHERE session_id = ?1 AND stream_id = ?2

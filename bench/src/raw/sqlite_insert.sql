INSERT INTO log (
    c_offset, stream_id, append_id, host_id, user_id, payload, content_type, control, tx_last,
    trace_context, created_at
) VALUES (?1, ?2, ?1, NULL, NULL, ?3, ?4, NULL, 1, NULL, ?5)

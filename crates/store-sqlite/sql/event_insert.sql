-- An event that is neither the change of a row nor of an entity, as most are: half as many columns.
INSERT INTO main.log (
    c_offset, stream_id, append_id, host_id, user_id, payload, content_type, control, tx_last,
    trace_context, created_at, txid
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)

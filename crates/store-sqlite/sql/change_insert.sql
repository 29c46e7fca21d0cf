INSERT INTO main.log (
    c_offset, stream_id, append_id, host_id, user_id, payload, content_type, control, tx_last,
    trace_context, created_at, table_name, operation, entity_code, entity_id, before_data,
    after_data, txid, entity_was, entity_action
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20
)

INSERT INTO main.tidewire_log_archive (
    c_offset, stream_id, append_id, host_id, user_id, table_name, operation, entity_code, entity_id,
    before_data, after_data, payload, content_type, control, txid, tx_last, trace_context,
    created_at, entity_was, entity_action, archived_at
)
SELECT c_offset, stream_id, append_id, host_id, user_id, table_name, operation, entity_code,
       entity_id, before_data, after_data, payload, content_type, control, txid, tx_last,
       trace_context, created_at, entity_was, entity_action, ?4
FROM main.log
WHERE stream_id = ?1 AND control IS NULL AND c_offset > ?2 AND c_offset <= ?3

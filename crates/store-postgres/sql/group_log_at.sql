SELECT c_offset, append_id, stream_id, control IS NOT NULL, host_id, user_id, txid, tx_last,
       created_at, trace_context, operation, table_name,
       entity_code, entity_id, before_data::text, after_data::text, payload, content_type
FROM tidewire.log
WHERE c_offset >= $1 AND c_offset <= $2 AND c_offset = ANY($3)

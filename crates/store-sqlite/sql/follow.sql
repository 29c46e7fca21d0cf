SELECT c_offset, stream_id, control, created_at, payload, operation, table_name, entity_code,
       entity_id, before_data, after_data, host_id, user_id, txid, tx_last, entity_was,
       entity_action
FROM main.log
WHERE c_offset > ?1
ORDER BY c_offset
LIMIT ?2

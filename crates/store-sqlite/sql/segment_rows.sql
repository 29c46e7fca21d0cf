SELECT c_offset, append_id, operation, table_name, entity_code, entity_id, before_data, after_data,
       host_id, user_id, txid, tx_last, created_at
FROM main.log
WHERE stream_id = ?1 AND control IS NULL AND c_offset > ?2 AND c_offset <= ?3
ORDER BY c_offset
LIMIT ?4

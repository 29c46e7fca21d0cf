SELECT c_offset, append_id, operation, table_name, entity_code, entity_id, before_data::text,
       after_data::text, host_id, user_id, txid, tx_last,
       created_at
FROM tidewire.log
WHERE c_offset >= $1 AND c_offset <= $2 AND c_offset = ANY($3)

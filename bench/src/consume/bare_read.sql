SELECT c_offset, stream_id, host_id, user_id, table_name, operation, entity_id, before_data::text,
       after_data::text, txid, tx_last, (extract(epoch FROM created_at) * 1000)::bigint
FROM tidewire.log
WHERE c_offset >= $1 AND control IS NULL
ORDER BY c_offset LIMIT $2

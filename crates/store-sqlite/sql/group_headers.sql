SELECT c_offset, stream_id, append_id, host_id, txid, tx_last, control IS NOT NULL, created_at
FROM main.log
WHERE c_offset > ?1 AND c_offset <= ?2
ORDER BY c_offset

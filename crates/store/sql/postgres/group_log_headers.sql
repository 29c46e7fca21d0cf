-- The sizes are those on disk, so that nothing is fetched to be measured.
SELECT c_offset, append_id, stream_id, control IS NOT NULL, host_id, txid, tx_last,
       created_at,
       coalesce(pg_column_size(before_data), 0) + coalesce(pg_column_size(after_data), 0)
       + coalesce(octet_length(payload), 0)
FROM tidewire.log
WHERE c_offset > $1 AND c_offset <= $2
ORDER BY c_offset

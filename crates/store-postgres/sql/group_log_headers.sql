-- The sizes stand beside the events, so that nothing is fetched to be measured.
SELECT c_offset, append_id, stream_id, control IS NOT NULL, host_id, txid, tx_last,
       created_at, tidewire.event_bytes(row_bytes, before_data, after_data, payload)
FROM tidewire.log
WHERE c_offset > $1 AND c_offset <= $2
ORDER BY c_offset

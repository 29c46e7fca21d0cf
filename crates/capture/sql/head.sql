-- Until the slot is read to its end, the write-ahead log is still the source.
SELECT coalesce((SELECT c_offset FROM tidewire.log ORDER BY c_offset DESC LIMIT 1), 0),
       tidewire.now_ms(), generation, CASE WHEN finishing THEN 'wal' ELSE mode END, chunk_txid
FROM tidewire.capture

SELECT coalesce((SELECT c_offset FROM tidewire.log ORDER BY c_offset DESC LIMIT 1), 0),
       tidewire.now_ms(), generation, mode, chunk_txid
FROM tidewire.capture

UPDATE tidewire.capture SET chunk_txid = $2 WHERE generation = $1

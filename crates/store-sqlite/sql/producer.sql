SELECT epoch, seq, tail_offset FROM main.tidewire_stream_producers
WHERE stream_id = ?1 AND producer_id = ?2

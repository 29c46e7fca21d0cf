INSERT INTO main.tidewire_stream_producers (stream_id, producer_id, epoch, seq, tail_offset)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (stream_id, producer_id) DO UPDATE SET
    epoch = excluded.epoch, seq = excluded.seq, tail_offset = excluded.tail_offset

INSERT INTO tidewire.stream_producers (stream_id, producer_id, epoch, seq, tail_offset)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
ON CONFLICT (stream_id, producer_id) DO UPDATE SET
    epoch = excluded.epoch, seq = excluded.seq, tail_offset = excluded.tail_offset

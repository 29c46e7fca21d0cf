INSERT INTO tidewire.log (c_offset, stream_id, append_id, payload, content_type, tx_last)
SELECT c_offset, stream_id, c_offset, payload, $4, true
FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS new (c_offset, stream_id, payload)

INSERT INTO tidewire.log (c_offset, stream_id, append_id, payload, content_type, tx_last)
SELECT c_offset, ($1::text[])[1 + c_offset % cardinality($1::text[])], c_offset, $2, $3, true
FROM generate_series($4::bigint, $5::bigint) AS new (c_offset)

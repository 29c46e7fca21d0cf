INSERT INTO tidewire.log (
    c_offset, stream_id, append_id, payload, content_type, control, txid, tx_last, created_at
)
SELECT c_offset, stream_id, c_offset, payload, content_type, control, txid, tx_last,
       '2000-01-01 00:00:00+00'::timestamptz + committed_at * interval '1 microsecond'
FROM unnest(
    $1::bigint[], $2::text[], $3::bytea[], $4::text[], $5::text[], $6::bigint[], $7::boolean[],
    $8::bigint[]
) AS event (c_offset, stream_id, payload, content_type, control, txid, tx_last, committed_at)

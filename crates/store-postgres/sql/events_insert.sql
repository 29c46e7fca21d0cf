INSERT INTO tidewire.log (
    c_offset, stream_id, append_id, host_id, user_id, payload, content_type, control, tx_last,
    trace_context, created_at
)
SELECT event.*, to_timestamp($11::bigint / 1000.0)
FROM unnest(
    $1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bytea[], $7::text[],
    $8::text[], $9::boolean[], $10::text[]
) AS event

-- Events that are set aside. One that is there already stays as it is, unless it failed for good again.
INSERT INTO tidewire.consumer_dead_letters AS known (
    group_id, partition_id, died_at_ms, c_offset, key_hash, state, error, attempts, stream_id, append_id,
    host_id, user_id, table_name, operation, entity_code, entity_id, before_data, after_data, payload,
    content_type, txid, tx_last, trace_context, created_at
)
SELECT $1::varchar, $2::integer, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       letter.c_offset, letter.key_hash, letter.state, letter.error, letter.attempts, letter.stream_id,
       letter.append_id, letter.host_id, letter.user_id, letter.table_name, letter.operation,
       letter.entity_code, letter.entity_id, letter.before_data::jsonb, letter.after_data::jsonb,
       letter.payload, letter.content_type, letter.txid, letter.tx_last, letter.trace_context,
       to_timestamp(letter.created_ms / 1000.0)
FROM unnest(
    $3::bigint[], $4::bytea[], $5::text[], $6::text[], $7::integer[], $8::text[], $9::bigint[],
    $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[],
    $17::text[], $18::bytea[], $19::text[], $20::bigint[], $21::boolean[], $22::text[], $23::bigint[]
) AS letter(
    c_offset, key_hash, state, error, attempts, stream_id, append_id, host_id, user_id, table_name,
    operation, entity_code, entity_id, before_data, after_data, payload, content_type, txid, tx_last,
    trace_context, created_ms
)
ON CONFLICT (group_id, c_offset) DO UPDATE SET
    state = excluded.state, error = excluded.error, attempts = excluded.attempts,
    died_at_ms = excluded.died_at_ms
WHERE excluded.state = 'dead'

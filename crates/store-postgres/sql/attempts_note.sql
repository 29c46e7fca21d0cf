INSERT INTO tidewire.consumer_attempts AS known (
    group_id, partition_id, key_hash, host_id, user_id, first_offset, verdict, error, attempts,
    failed_at_ms
)
SELECT $1::varchar, $2::integer, failed.*, 1,
       floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM unnest($3::bytea[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[]) AS failed
ON CONFLICT (group_id, partition_id, key_hash) DO UPDATE SET
    attempts = known.attempts + 1, first_offset = excluded.first_offset, verdict = excluded.verdict,
    error = excluded.error, failed_at_ms = excluded.failed_at_ms

INSERT INTO tidewire.consumer_parked_keys AS known (
    group_id, partition_id, key_hash, host_id, user_id, from_offset, parked_at_ms
)
SELECT $1::varchar, $2::integer, parked.*, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM unnest($3::bytea[], $4::text[], $5::text[], $6::bigint[]) AS parked
ON CONFLICT (group_id, key_hash) DO UPDATE SET
    from_offset = least(known.from_offset, excluded.from_offset)

INSERT INTO tidewire.session_offsets (
    session_id, user_id, stream_id, subscription_epoch, last_offset, updated_at
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[]
)
ON CONFLICT (session_id, stream_id) DO UPDATE SET
    subscription_epoch = excluded.subscription_epoch,
    last_offset = excluded.last_offset,
    updated_at = excluded.updated_at

INSERT INTO tidewire.session_subscriptions (
    session_id, user_id, stream_id, subscription_epoch, expires_at, query_id, live_offset
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[]
)
ON CONFLICT (session_id, stream_id) DO UPDATE SET
    subscription_epoch = excluded.subscription_epoch,
    expires_at = excluded.expires_at,
    query_id = excluded.query_id,
    live_offset = excluded.live_offset

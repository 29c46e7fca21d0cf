INSERT INTO main.tidewire_session_subscriptions (
    session_id, user_id, stream_id, subscription_epoch, expires_at, query_id, live_offset
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (session_id, stream_id) DO UPDATE SET
    subscription_epoch = excluded.subscription_epoch,
    expires_at = excluded.expires_at,
    query_id = excluded.query_id,
    live_offset = excluded.live_offset

INSERT INTO main.tidewire_session_offsets (
    session_id, user_id, stream_id, subscription_epoch, last_offset, updated_at
) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (session_id, stream_id) DO UPDATE SET
    subscription_epoch = excluded.subscription_epoch,
    last_offset = excluded.last_offset,
    updated_at = excluded.updated_at

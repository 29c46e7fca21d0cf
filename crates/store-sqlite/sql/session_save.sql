INSERT INTO main.tidewire_sessions (
    session_id, user_id, host_id, revision, created_at, expires_at, node_id, served_until
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (session_id) DO UPDATE SET
    revision = excluded.revision,
    expires_at = excluded.expires_at,
    node_id = excluded.node_id,
    served_until = excluded.served_until

INSERT INTO tidewire.sessions (
    session_id, user_id, host_id, revision, created_at, expires_at, node_id, served_until
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[],
    $8::bigint[]
)
ON CONFLICT (session_id) DO UPDATE SET
    revision = excluded.revision,
    expires_at = excluded.expires_at,
    node_id = excluded.node_id,
    served_until = excluded.served_until

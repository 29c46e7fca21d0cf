SELECT session_id, user_id, host_id, revision, created_at, expires_at, node_id, served_until,
       (SELECT count(*) FROM main.tidewire_session_subscriptions AS subscription
        WHERE subscription.session_id = session.session_id)
FROM main.tidewire_sessions AS session
WHERE node_id = ?1
LIMIT ?2

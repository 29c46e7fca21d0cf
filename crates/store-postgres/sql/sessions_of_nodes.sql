SELECT session_id, user_id, host_id, revision, created_at, expires_at, node_id, served_until,
       (SELECT count(*) FROM tidewire.session_subscriptions AS subscription
        WHERE subscription.session_id = session.session_id)
FROM tidewire.sessions AS session
WHERE node_id = ANY($1)
LIMIT $2

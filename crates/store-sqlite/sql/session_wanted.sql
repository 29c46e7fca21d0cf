-- Subscriptions are counted only where that is asked for: a session may have very many.
SELECT session_id, user_id, host_id, revision, created_at, expires_at, node_id, served_until,
       CASE WHEN ?2 THEN (
           SELECT count(*) FROM main.tidewire_session_subscriptions AS subscription
           WHERE subscription.session_id = session.session_id
       ) ELSE 0 END,
       EXISTS (SELECT 1 FROM main.tidewire_nodes AS node WHERE node.node_id = session.node_id)
FROM main.tidewire_sessions AS session
WHERE session_id = ?1

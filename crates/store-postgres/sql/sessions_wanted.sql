-- Subscriptions are counted only where that is asked for: a session may have very many.
SELECT session.session_id, session.user_id, session.host_id, session.revision, session.created_at,
       session.expires_at, session.node_id, session.served_until,
       CASE WHEN wanted.counted THEN (
           SELECT count(*) FROM tidewire.session_subscriptions AS subscription
           WHERE subscription.session_id = session.session_id
       ) ELSE 0 END,
       EXISTS (SELECT FROM tidewire.nodes AS node WHERE node.node_id = session.node_id)
FROM unnest($1::text[], $2::boolean[]) AS wanted (session_id, counted)
CROSS JOIN LATERAL (
    SELECT * FROM tidewire.sessions AS of WHERE of.session_id = wanted.session_id LIMIT 1
) AS session

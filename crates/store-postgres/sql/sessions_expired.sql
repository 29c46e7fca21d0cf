-- The longest expired first. What a node serves is not looked at: it does not expire.
SELECT session_id,
       (SELECT count(*) FROM tidewire.session_subscriptions AS subscription
        WHERE subscription.session_id = session.session_id)
FROM tidewire.sessions AS session
WHERE node_id IS NULL AND expires_at <= $1
ORDER BY expires_at
LIMIT $2

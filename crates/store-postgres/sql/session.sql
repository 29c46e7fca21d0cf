-- A session that has not expired, with what it follows, in one snapshot. A session is kept by the
-- row of the node that serves it, also after that node's lease has ended: the sweep gives it the
-- time it lives on. The pointers are probed one by one, whatever the statistics say: a session may
-- follow very many streams.
SELECT session.user_id, session.host_id, session.revision,
       subscription.stream_id, subscription.query_id, subscription.subscription_epoch,
       subscription.live_offset, pointer.last_offset, pointer.updated_at
FROM tidewire.sessions AS session
LEFT JOIN tidewire.session_subscriptions AS subscription
    ON subscription.session_id = session.session_id
LEFT JOIN LATERAL (
    SELECT last_offset, updated_at FROM tidewire.session_offsets AS of
    WHERE of.session_id = subscription.session_id AND of.stream_id = subscription.stream_id
      AND of.subscription_epoch = subscription.subscription_epoch
    LIMIT 1
) AS pointer ON true
WHERE session.session_id = $1
  AND (session.expires_at > tidewire.now_ms()
       OR EXISTS (SELECT FROM tidewire.nodes AS node WHERE node.node_id = session.node_id))
ORDER BY subscription.stream_id

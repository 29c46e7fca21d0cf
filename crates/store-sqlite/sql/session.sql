-- A session that has not expired, with what it follows. A session is kept by the row of the node
-- that serves it, also after that node's lease has ended: the sweep gives it the time it lives on.
SELECT session.user_id, session.host_id, session.revision,
       subscription.stream_id, subscription.query_id, subscription.subscription_epoch,
       subscription.live_offset, pointer.last_offset, pointer.updated_at
FROM main.tidewire_sessions AS session
LEFT JOIN main.tidewire_session_subscriptions AS subscription
    ON subscription.session_id = session.session_id
LEFT JOIN main.tidewire_session_offsets AS pointer
    ON pointer.session_id = subscription.session_id
   AND pointer.stream_id = subscription.stream_id
   AND pointer.subscription_epoch = subscription.subscription_epoch
WHERE session.session_id = ?1
  AND (session.expires_at > ?2
       OR EXISTS (SELECT 1 FROM main.tidewire_nodes AS node WHERE node.node_id = session.node_id))
ORDER BY subscription.stream_id

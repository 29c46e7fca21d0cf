-- What sessions follow of streams, and under names. Each is probed by its index, whatever the
-- statistics say.
SELECT subscription.stream_id, subscription.query_id, subscription.subscription_epoch,
       subscription.live_offset, pointer.last_offset, pointer.updated_at, subscription.session_id
FROM unnest($1::text[], $2::text[], $3::text[]) AS wanted (session_id, stream_id, query_id)
CROSS JOIN LATERAL (
    (SELECT * FROM tidewire.session_subscriptions AS of
     WHERE of.session_id = wanted.session_id AND of.stream_id = wanted.stream_id
     LIMIT 1)
    UNION ALL
    (SELECT * FROM tidewire.session_subscriptions AS of
     WHERE of.session_id = wanted.session_id AND of.query_id = wanted.query_id
       AND of.stream_id <> wanted.stream_id
     LIMIT 1)
) AS subscription
LEFT JOIN LATERAL (
    SELECT last_offset, updated_at FROM tidewire.session_offsets AS of
    WHERE of.session_id = subscription.session_id AND of.stream_id = subscription.stream_id
      AND of.subscription_epoch = subscription.subscription_epoch
    LIMIT 1
) AS pointer ON true

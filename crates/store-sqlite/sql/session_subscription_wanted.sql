-- What a session follows of a stream, and under a name.
SELECT subscription.stream_id, subscription.query_id, subscription.subscription_epoch,
       subscription.live_offset, pointer.last_offset, pointer.updated_at
FROM main.tidewire_session_subscriptions AS subscription
LEFT JOIN main.tidewire_session_offsets AS pointer
    ON pointer.session_id = subscription.session_id
   AND pointer.stream_id = subscription.stream_id
   AND pointer.subscription_epoch = subscription.subscription_epoch
WHERE subscription.session_id = ?1
  AND (subscription.stream_id = ?2 OR subscription.query_id = ?3)

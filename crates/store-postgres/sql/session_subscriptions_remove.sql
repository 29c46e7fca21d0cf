DELETE FROM tidewire.session_subscriptions AS subscription
USING unnest($1::text[], $2::text[]) AS removed (session_id, stream_id)
WHERE subscription.session_id = removed.session_id AND subscription.stream_id = removed.stream_id

SELECT wanted.stream_id,
       (SELECT count(*) FROM tidewire.session_subscriptions AS subscription
        WHERE subscription.stream_id = wanted.stream_id)
FROM unnest($1::text[]) AS wanted (stream_id)

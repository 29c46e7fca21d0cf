UPDATE tidewire.session_subscriptions AS subscription SET expires_at = renewed.expires_at
FROM unnest($1::text[], $2::bigint[]) AS renewed (session_id, expires_at)
WHERE subscription.session_id = renewed.session_id

SELECT webhook_url, wake_stream, pattern, streams, lease_ttl_ms, description, created_at_ms,
       generation, wake_id, wake_snapshot, holder, lease_until_ms, retry_count, next_attempt_at_ms
FROM main.tidewire_subscriptions
WHERE id = ?1

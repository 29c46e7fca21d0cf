SELECT webhook_url, wake_stream, pattern, streams::text, lease_ttl_ms, description, created_at_ms,
       generation, wake_id, wake_snapshot::text, holder, lease_until_ms, retry_count,
       next_attempt_at_ms
FROM tidewire.subscriptions
WHERE id = $1

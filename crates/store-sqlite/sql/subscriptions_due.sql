SELECT id FROM main.tidewire_subscriptions
WHERE next_attempt_at_ms <= ?1 OR lease_until_ms <= ?1
LIMIT ?2

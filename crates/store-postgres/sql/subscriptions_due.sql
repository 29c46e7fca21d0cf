-- Two index scans, where one condition with OR would read every subscription.
SELECT id FROM tidewire.subscriptions WHERE next_attempt_at_ms <= tidewire.now_ms()
UNION
SELECT id FROM tidewire.subscriptions WHERE lease_until_ms <= tidewire.now_ms()
LIMIT $1

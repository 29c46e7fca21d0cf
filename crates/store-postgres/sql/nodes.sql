SELECT node_id, url, version, connections, subscriptions, position, lag, started_at,
       lease_until - tidewire.now_ms()
FROM tidewire.nodes
WHERE lease_until > tidewire.now_ms()
ORDER BY node_id

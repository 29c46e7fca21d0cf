SELECT node_id, url, version, connections, subscriptions, position, lag, started_at, lease_until - ?1
FROM main.tidewire_nodes
WHERE lease_until > ?1
ORDER BY node_id

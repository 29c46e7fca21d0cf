INSERT INTO tidewire.nodes AS node (
    node_id, url, version, connections, subscriptions, position, lag, started_at, lease_until
)
VALUES ($1, $2, $3, $4, $5, $6, $7, tidewire.now_ms(), tidewire.now_ms() + $8::bigint)
ON CONFLICT (node_id) DO UPDATE SET
    url = excluded.url,
    version = excluded.version,
    connections = excluded.connections,
    subscriptions = excluded.subscriptions,
    position = excluded.position,
    lag = excluded.lag,
    started_at = CASE WHEN node.lease_until > tidewire.now_ms()
                      THEN node.started_at ELSE excluded.started_at END,
    lease_until = excluded.lease_until

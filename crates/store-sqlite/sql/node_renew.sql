INSERT INTO main.tidewire_nodes (
    node_id, url, version, connections, subscriptions, position, lag, started_at, lease_until
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (node_id) DO UPDATE SET
    url = excluded.url,
    version = excluded.version,
    connections = excluded.connections,
    subscriptions = excluded.subscriptions,
    position = excluded.position,
    lag = excluded.lag,
    started_at = CASE WHEN lease_until > excluded.started_at
                      THEN started_at ELSE excluded.started_at END,
    lease_until = excluded.lease_until

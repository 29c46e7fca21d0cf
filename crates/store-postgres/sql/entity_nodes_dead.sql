-- Nodes that subscriptions name though they live no more. Each step is a probe of an index, however
-- many subscriptions a node has.
WITH RECURSIVE named (node_id) AS (
    (SELECT node_id FROM tidewire.rxdb_subscription
     WHERE node_id IS NOT NULL ORDER BY node_id LIMIT 1)
    UNION ALL
    SELECT (SELECT node_id FROM tidewire.rxdb_subscription AS subscription
            WHERE subscription.node_id > named.node_id ORDER BY node_id LIMIT 1)
    FROM named
    WHERE named.node_id IS NOT NULL
)
SELECT node_id FROM named
WHERE node_id IS NOT NULL
  AND NOT EXISTS (
      SELECT FROM tidewire.nodes AS node
      WHERE node.node_id = named.node_id AND node.lease_until > tidewire.now_ms()
  )

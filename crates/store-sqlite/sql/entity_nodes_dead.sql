-- Nodes that subscriptions name though they live no more. Each step is a probe of an index, however
-- many subscriptions a node has.
WITH RECURSIVE named (node_id) AS (
    SELECT (SELECT min(node_id) FROM main.tidewire_rxdb_subscription WHERE node_id IS NOT NULL)
    UNION ALL
    SELECT (SELECT min(node_id) FROM main.tidewire_rxdb_subscription AS subscription
            WHERE subscription.node_id > named.node_id)
    FROM named
    WHERE named.node_id IS NOT NULL
)
SELECT node_id FROM named
WHERE node_id IS NOT NULL
  AND NOT EXISTS (
      SELECT 1 FROM main.tidewire_nodes AS node
      WHERE node.node_id = named.node_id AND node.lease_until > ?1
  )

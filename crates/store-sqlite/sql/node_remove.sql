DELETE FROM main.tidewire_nodes AS node
WHERE node_id = ?1 AND lease_until <= ?2
  AND NOT EXISTS (SELECT 1 FROM main.tidewire_sessions AS session WHERE session.node_id = node.node_id)

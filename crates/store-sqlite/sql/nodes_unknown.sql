-- Nodes that sessions name though they have no row. Each step is a probe of an index, however many
-- sessions a node serves.
WITH RECURSIVE named (node_id) AS (
    SELECT (SELECT min(node_id) FROM main.tidewire_sessions WHERE node_id IS NOT NULL)
    UNION ALL
    SELECT (SELECT min(node_id) FROM main.tidewire_sessions AS session
            WHERE session.node_id > named.node_id)
    FROM named
    WHERE named.node_id IS NOT NULL
)
SELECT node_id FROM named
WHERE node_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM main.tidewire_nodes AS node WHERE node.node_id = named.node_id)

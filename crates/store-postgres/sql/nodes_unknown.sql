-- Nodes that sessions name though they have no row. Each step is a probe of an index, however many
-- sessions a node serves.
WITH RECURSIVE named (node_id) AS (
    (SELECT node_id FROM tidewire.sessions WHERE node_id IS NOT NULL ORDER BY node_id LIMIT 1)
    UNION ALL
    SELECT (SELECT node_id FROM tidewire.sessions AS session
            WHERE session.node_id > named.node_id ORDER BY node_id LIMIT 1)
    FROM named
    WHERE named.node_id IS NOT NULL
)
SELECT node_id FROM named
WHERE node_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM tidewire.nodes AS node WHERE node.node_id = named.node_id)

DELETE FROM tidewire.nodes AS node
WHERE node_id = ANY($1) AND lease_until <= $2
  AND NOT EXISTS (SELECT FROM tidewire.sessions AS session WHERE session.node_id = node.node_id)

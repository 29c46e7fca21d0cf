SELECT revision FROM main.tidewire_sessions AS session
WHERE session_id = ?1
  AND (expires_at > ?2
       OR EXISTS (SELECT 1 FROM main.tidewire_nodes AS node WHERE node.node_id = session.node_id))

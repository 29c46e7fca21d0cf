SELECT session_id, revision FROM tidewire.sessions AS session
WHERE session_id = ANY($1)
  AND (expires_at > tidewire.now_ms()
       OR EXISTS (SELECT FROM tidewire.nodes AS node WHERE node.node_id = session.node_id))

-- Rows of nodes that live no more, so many at a time.
DELETE FROM tidewire.live_queries
WHERE live_id = ANY(ARRAY(
    SELECT live_id FROM tidewire.live_queries
    WHERE NOT EXISTS (
        SELECT FROM tidewire.nodes WHERE node_id = node AND lease_until > tidewire.now_ms()
    )
    LIMIT $1 FOR UPDATE SKIP LOCKED
))

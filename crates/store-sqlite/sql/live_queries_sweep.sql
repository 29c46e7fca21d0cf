-- Rows of nodes that live no more, so many at a time.
DELETE FROM main.tidewire_live_queries
WHERE live_id IN (
    SELECT live_id FROM main.tidewire_live_queries
    WHERE NOT EXISTS (
        SELECT 1 FROM main.tidewire_nodes WHERE node_id = node AND lease_until > ?1
    )
    LIMIT ?2
)

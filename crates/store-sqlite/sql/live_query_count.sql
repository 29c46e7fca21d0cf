UPDATE main.tidewire_live_queries
SET changes = changes + ?2, lag_ms = coalesce(?3, lag_ms), queue_depth = ?4, plan = ?5,
    updated_at = CASE WHEN ?2 > 0 THEN ?6 ELSE updated_at END
WHERE live_id = ?1

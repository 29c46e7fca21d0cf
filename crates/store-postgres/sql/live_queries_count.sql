UPDATE tidewire.live_queries AS listed
SET changes = listed.changes + counted.changes, lag_ms = coalesce(counted.lag_ms, listed.lag_ms),
    queue_depth = counted.queue_depth, plan = counted.plan,
    updated_at = CASE WHEN counted.changes > 0 THEN clock_timestamp() ELSE listed.updated_at END
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])
    AS counted (live_id, changes, lag_ms, queue_depth, plan)
WHERE listed.live_id = counted.live_id

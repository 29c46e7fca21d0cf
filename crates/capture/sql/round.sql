-- The transactions that are staged and visible, in the order in which they go into the log: by their
-- last id, the one that is partly there before all others. Looks above the soft floor, unless one of
-- the writers that were at work below it has ended by this very snapshot.
WITH floor AS (
    SELECT CASE WHEN EXISTS (
        SELECT FROM unnest($3::bigint[]) AS writer (txid)
        WHERE pg_visible_in_snapshot(writer.txid::text::xid8, pg_current_snapshot())
    ) THEN $1::bigint ELSE $2::bigint END AS id
),
waiting AS (
    SELECT * FROM tidewire.staging WHERE id > (SELECT id FROM floor) AND id <= $5 AND retry_at IS NULL
    UNION ALL
    SELECT * FROM tidewire.staging WHERE retry_at <= now()
)
SELECT txid, min(id), max(id), count(*),
       sum(coalesce(pg_column_size(before_data), 0) + coalesce(pg_column_size(after_data), 0)
           + coalesce(pg_column_size(payload), 0))::bigint,
       bool_or(operation IS NULL AND (control IS NULL OR control IN ('create', 'delete'))),
       bool_or(statement IS NOT NULL),
       bool_or(retry_at IS NOT NULL),
       floor(extract(epoch FROM clock_timestamp() - min(created_at)) * 1000)::bigint
FROM waiting
GROUP BY txid
ORDER BY (txid IS NOT DISTINCT FROM (SELECT chunk_txid FROM tidewire.capture)) DESC, max(id)
LIMIT $4

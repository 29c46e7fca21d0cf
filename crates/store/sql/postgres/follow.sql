-- The sizes are those on disk, so that nothing is fetched to be measured.
SELECT c_offset, stream_id, control, (extract(epoch FROM created_at) * 1000)::bigint,
       CASE WHEN operation IS NULL THEN octet_length(payload)
            ELSE coalesce(pg_column_size(before_data), 0) + coalesce(pg_column_size(after_data), 0)
       END,
       operation IS NOT NULL
FROM tidewire.log
WHERE c_offset > $1
ORDER BY c_offset
LIMIT $2

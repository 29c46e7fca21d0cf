-- Where a page is cut is decided by the sizes that stand beside the events: those past the limit are not fetched.
-- Mostly all are within it. That is found out first, because adding up row by row takes longer than adding up all.
WITH stretch AS MATERIALIZED (
    SELECT coalesce(sum(tidewire.event_bytes(row_bytes, before_data, after_data, payload)), 0) AS bytes
    FROM tidewire.log
    WHERE c_offset > $1 AND c_offset <= $2
)
SELECT c_offset, append_id, stream_id, control IS NOT NULL, host_id, user_id, txid, tx_last, created_at,
       trace_context, operation, table_name, entity_code, entity_id, before_data::text,
       after_data::text, payload, content_type, (SELECT bytes FROM stretch) >= $3::bigint
FROM tidewire.log
WHERE c_offset > $1 AND c_offset <= CASE
    WHEN (SELECT bytes FROM stretch) < $3 THEN $2
    ELSE (
        SELECT max(c_offset)
        FROM (
            SELECT c_offset, bytes,
                   sum(bytes) OVER (ORDER BY c_offset ROWS UNBOUNDED PRECEDING) AS bytes_through
            FROM (
                SELECT c_offset,
                       tidewire.event_bytes(row_bytes, before_data, after_data, payload) AS bytes
                FROM tidewire.log
                WHERE c_offset > $1 AND c_offset <= $2
                ORDER BY c_offset
            ) AS sized
        ) AS measured
        WHERE bytes_through - bytes < $3
    )
END
ORDER BY c_offset

-- Where a page is cut is decided by the sizes on disk: those past the limit are not fetched.
SELECT c_offset, append_id, stream_id, control IS NOT NULL, host_id, user_id, txid, tx_last,
       (extract(epoch FROM created_at) * 1000)::bigint, trace_context, operation, table_name,
       entity_code, entity_id, before_data::text, after_data::text, payload, content_type,
       bytes_through
FROM (
    SELECT *, sum(bytes) OVER (ORDER BY c_offset ROWS UNBOUNDED PRECEDING) AS bytes_through
    FROM (
        SELECT c_offset, append_id, stream_id, control, host_id, user_id, txid, tx_last, created_at,
               trace_context, operation, table_name, entity_code, entity_id, before_data, after_data,
               payload, content_type,
               coalesce(pg_column_size(before_data), 0) + coalesce(pg_column_size(after_data), 0)
                   + coalesce(octet_length(payload), 0) AS bytes
        FROM tidewire.log
        WHERE c_offset > $1 AND c_offset <= $2
        ORDER BY c_offset
    ) AS page
) AS measured
WHERE bytes_through - bytes < $3::bigint
ORDER BY c_offset

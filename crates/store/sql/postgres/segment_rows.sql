-- Where a page is cut is decided by the sizes on disk: those past the limit are not fetched.
SELECT c_offset, append_id, operation, table_name, entity_code, entity_id, before_data::text,
       after_data::text, host_id, user_id, txid, tx_last,
       created_at
FROM (
    SELECT *,
           sum(coalesce(pg_column_size(before_data), 0) + coalesce(pg_column_size(after_data), 0))
               OVER (ORDER BY c_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
               AS bytes_before
    FROM (
        SELECT c_offset, append_id, operation, table_name, entity_code, entity_id, before_data,
               after_data, host_id, user_id, txid, tx_last, created_at
        FROM tidewire.log
        WHERE stream_id = $1 AND control IS NULL AND c_offset > $2 AND c_offset <= $3
        ORDER BY c_offset
        LIMIT $4
    ) AS page
) AS measured
WHERE coalesce(bytes_before, 0) < $5::bigint
ORDER BY c_offset

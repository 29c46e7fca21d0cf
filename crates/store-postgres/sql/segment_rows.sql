-- A page, as in segment.sql. The size of a change stands beside it, so that what is past the limit is not fetched.
-- It is not the length of the text, so nobody measures that to find out where the page was cut.
SELECT c_offset, append_id, operation, table_name, entity_code, entity_id, before_data::text,
       after_data::text, host_id, user_id, txid, tx_last, created_at, bytes, follows
FROM (
    SELECT *,
           sum(bytes) OVER by_offset AS bytes_before,
           lead(c_offset) OVER by_offset IS NOT NULL AS follows
    FROM (
        SELECT c_offset, append_id, operation, table_name, entity_code, entity_id, before_data,
               after_data, host_id, user_id, txid, tx_last, created_at,
               tidewire.event_bytes(row_bytes, before_data, after_data, NULL) AS bytes
        FROM tidewire.log
        WHERE stream_id = $1 AND control IS NULL AND c_offset > $2 AND c_offset <= $3
        ORDER BY c_offset
        LIMIT $4::bigint + 1
    ) AS page
    WINDOW by_offset AS (ORDER BY c_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) AS measured
WHERE coalesce(bytes_before, 0) < $5::bigint
ORDER BY c_offset
LIMIT $4

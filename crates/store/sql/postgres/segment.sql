-- The length of a payload is known without fetching it, so those past the limit stay on disk.
SELECT c_offset, append_id, payload
FROM (
    SELECT c_offset, append_id, payload,
           sum(octet_length(payload)) OVER (
               ORDER BY c_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           ) AS bytes_before
    FROM (
        SELECT c_offset, append_id, payload FROM tidewire.log
        WHERE stream_id = $1 AND control IS NULL AND c_offset > $2 AND c_offset <= $3
        ORDER BY c_offset
        LIMIT $4
    ) AS page
) AS measured
WHERE coalesce(bytes_before, 0) < $5::bigint
ORDER BY c_offset

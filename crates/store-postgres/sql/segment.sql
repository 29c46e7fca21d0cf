-- A page, up to the event that reaches the limit of bytes: each event with its size, by which the page
-- is cut, and whether another follows it, by which a reader knows the end. One more than the limit of
-- events is looked at for that. The length of a payload is known without fetching it, so those past
-- the limits stay on disk.
SELECT c_offset, append_id, payload, bytes, follows
FROM (
    SELECT c_offset, append_id, payload, bytes,
           sum(bytes) OVER by_offset AS bytes_before,
           lead(c_offset) OVER by_offset IS NOT NULL AS follows
    FROM (
        SELECT c_offset, append_id, payload, coalesce(octet_length(payload), 0) AS bytes
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

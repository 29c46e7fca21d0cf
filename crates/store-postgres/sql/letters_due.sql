-- Where they are cut is decided by their sizes. Each says whether another follows it; one more than asked for is
-- looked at for that.
SELECT letter.c_offset, letter.append_id, letter.stream_id, false, letter.host_id, letter.user_id,
       letter.txid, letter.tx_last, letter.created_at,
       letter.trace_context, letter.operation, letter.table_name, letter.entity_code, letter.entity_id,
       letter.before_data::text, letter.after_data::text, letter.payload, letter.content_type, letter.follows
FROM (
    SELECT *, sum(bytes) OVER by_offset AS bytes_through,
           lead(c_offset) OVER by_offset IS NOT NULL AS follows
    FROM (
        SELECT *, tidewire.event_bytes(NULL, before_data, after_data, payload) AS bytes
        FROM tidewire.consumer_dead_letters
        WHERE group_id = $1 AND key_hash = $2
        ORDER BY c_offset
        LIMIT $3::bigint + 1
    ) AS first
    WINDOW by_offset AS (ORDER BY c_offset ROWS UNBOUNDED PRECEDING)
) AS letter
WHERE bytes_through - bytes < $4::bigint
ORDER BY c_offset
LIMIT $3

-- Where they are cut is decided by their sizes. Each says whether another follows it; one more than asked for is
-- looked at for that.
SELECT letter.c_offset, letter.append_id, letter.stream_id, false, letter.host_id, letter.user_id,
       letter.txid, letter.tx_last, letter.created_at,
       letter.trace_context, letter.operation, letter.table_name, letter.entity_code, letter.entity_id,
       letter.before_data::text, letter.after_data::text, letter.payload, letter.content_type,
       letter.error, letter.attempts, letter.partition_id, letter.state, letter.died_at_ms,
       key.redrive_at_ms IS NOT NULL, letter.follows
FROM (
    SELECT *, sum(bytes) OVER by_offset AS bytes_through,
           lead(c_offset) OVER by_offset IS NOT NULL AS follows
    FROM (
        SELECT *, tidewire.event_bytes(NULL, before_data, after_data, payload) AS bytes
        FROM tidewire.consumer_dead_letters
        WHERE group_id = $1 AND c_offset > $2 AND ($4::text IS NULL OR state = $4)
        ORDER BY c_offset
        LIMIT $3::bigint + 1
    ) AS first
    WINDOW by_offset AS (ORDER BY c_offset ROWS UNBOUNDED PRECEDING)
) AS letter
LEFT JOIN tidewire.consumer_parked_keys AS key
    ON key.group_id = letter.group_id AND key.key_hash = letter.key_hash
WHERE bytes_through - bytes < $5::bigint
ORDER BY letter.c_offset
LIMIT $3

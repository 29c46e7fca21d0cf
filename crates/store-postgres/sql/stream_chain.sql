-- A stream, its source, that one's source and so on, with the clock, the log's tip and the position
-- of the stream's own last event, all in one snapshot.
WITH RECURSIVE chain AS (
    SELECT stream.*, 0 AS depth FROM tidewire.streams AS stream WHERE stream_id = $1
    UNION ALL
    SELECT source.*, depth + 1
    FROM chain
    CROSS JOIN LATERAL (
        SELECT * FROM tidewire.streams AS stream
        WHERE stream.stream_id = chain.forked_from
        LIMIT 1
    ) AS source
    WHERE depth < $2::integer
)
SELECT stream_id, created_offset, content_type, ttl_s, expires_fixed_ms, expires_at_ms,
       closed_offset, closed_by_id, closed_by_epoch, closed_by_seq,
       forked_from, fork_offset, fork_sub_offset, fork_position, forks, soft_deleted, last_seq,
       host_id, trimmed_to, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       coalesce((SELECT c_offset FROM tidewire.log ORDER BY c_offset DESC LIMIT 1), 0),
       CASE WHEN depth = 0 THEN (
           SELECT c_offset FROM tidewire.log
           WHERE log.stream_id = chain.stream_id AND control IS NULL
             AND c_offset > chain.created_offset
           ORDER BY c_offset DESC
           LIMIT 1
       ) END
FROM chain
ORDER BY depth

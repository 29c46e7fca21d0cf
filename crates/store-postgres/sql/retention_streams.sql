-- Streams of documents, each with the time of its oldest event.
SELECT stream_id, created_offset, greatest(created_offset, trimmed_to),
       (SELECT (extract(epoch FROM created_at) * 1000)::bigint FROM tidewire.log
        WHERE log.stream_id = stream.stream_id AND control IS NULL
          AND c_offset > greatest(created_offset, trimmed_to)
        ORDER BY c_offset
        LIMIT 1)
FROM tidewire.streams AS stream
WHERE stream_id > $1 AND NOT (stream_id >= 'table/' AND stream_id < 'table0')
  AND NOT soft_deleted AND forks = 0 AND forked_from IS NULL
ORDER BY stream_id
LIMIT $2

SELECT stream.stream_id, tail.c_offset
FROM unnest($1::text[], $2::bigint[]) AS stream (stream_id, created_offset)
CROSS JOIN LATERAL (
    SELECT c_offset FROM tidewire.log
    WHERE log.stream_id = stream.stream_id AND control IS NULL
      AND c_offset > stream.created_offset
    ORDER BY c_offset DESC
    LIMIT 1
) AS tail

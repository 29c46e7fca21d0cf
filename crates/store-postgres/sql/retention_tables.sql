-- Streams of tables that have events up to an offset.
SELECT stream_id, created_offset, greatest(created_offset, trimmed_to)
FROM tidewire.streams AS stream
WHERE stream_id >= 'table/' AND stream_id < 'table0'
  AND NOT soft_deleted AND forks = 0 AND forked_from IS NULL
  AND EXISTS (
      SELECT 1 FROM tidewire.log
      WHERE log.stream_id = stream.stream_id AND control IS NULL
        AND c_offset > greatest(created_offset, trimmed_to) AND c_offset <= $1
  )

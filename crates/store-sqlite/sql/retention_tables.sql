-- Streams of tables that have events up to an offset.
SELECT stream_id, created_offset, max(created_offset, trimmed_to)
FROM main.tidewire_streams AS stream
WHERE stream_id >= 'table/' AND stream_id < 'table0'
  AND NOT soft_deleted AND forks = 0 AND forked_from IS NULL
  AND EXISTS (
      SELECT 1 FROM main.log
      WHERE log.stream_id = stream.stream_id AND control IS NULL
        AND c_offset > max(created_offset, trimmed_to) AND c_offset <= ?1
  )

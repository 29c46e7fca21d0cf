SELECT before_data, after_data FROM log
WHERE stream_id = ?1 AND control IS NULL AND c_offset <= ?2
  AND c_offset > (SELECT known_offset FROM tidewire_watches WHERE stream_id = ?1)
ORDER BY c_offset

SELECT before_data, after_data FROM main.log
WHERE stream_id = ?1 AND control IS NULL AND c_offset <= ?2
  AND c_offset > (SELECT known_offset FROM main.tidewire_watches WHERE stream_id = ?1)
ORDER BY c_offset

SELECT c_offset,
       coalesce(octet_length(before_data), 0) + coalesce(octet_length(after_data), 0) + ?5
FROM main.log
WHERE stream_id = ?1 AND control IS NULL AND c_offset > ?2 AND c_offset <= ?3
  AND c_offset < (SELECT max(c_offset) FROM main.log)
ORDER BY c_offset
LIMIT ?4

SELECT c_offset, append_id, payload FROM main.log
WHERE stream_id = ?1 AND control IS NULL AND c_offset > ?2 AND c_offset <= ?3
ORDER BY c_offset
LIMIT ?4

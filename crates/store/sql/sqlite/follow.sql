SELECT c_offset, stream_id, control, created_at, payload FROM log
WHERE c_offset > ?1
ORDER BY c_offset
LIMIT ?2

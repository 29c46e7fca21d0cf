SELECT c_offset, entity_id, entity_was, operation, entity_action, host_id, stream_id
FROM main.log
WHERE entity_code = ?1 AND entity_was = ?2 AND c_offset > ?3
ORDER BY c_offset
LIMIT ?4

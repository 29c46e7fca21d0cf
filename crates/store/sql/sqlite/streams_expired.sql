SELECT stream_id FROM tidewire_streams
WHERE expires_at_ms <= ?1 AND NOT soft_deleted
LIMIT ?2

SELECT stream_id FROM main.tidewire_streams
WHERE expires_at_ms <= ?1 AND NOT soft_deleted
LIMIT ?2

SELECT stream_id FROM main.tidewire_streams
WHERE stream_id >= ?1 AND stream_id > ?2 AND NOT soft_deleted
  AND (expires_at_ms IS NULL OR expires_at_ms > ?3)
ORDER BY stream_id
LIMIT ?4

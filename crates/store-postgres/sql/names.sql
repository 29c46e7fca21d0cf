SELECT stream_id FROM tidewire.streams
WHERE stream_id >= $1 AND stream_id > $2 AND stream_id < $3 AND NOT soft_deleted
  AND (expires_at_ms IS NULL OR expires_at_ms > tidewire.now_ms())
ORDER BY stream_id
LIMIT $4

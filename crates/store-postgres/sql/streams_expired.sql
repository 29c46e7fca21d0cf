SELECT stream_id FROM tidewire.streams
WHERE expires_at_ms <= tidewire.now_ms() AND NOT soft_deleted
LIMIT $1

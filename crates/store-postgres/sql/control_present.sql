SELECT id, created_at <= tidewire.now_ms() - $2 FROM tidewire.control
WHERE id > $1
ORDER BY id

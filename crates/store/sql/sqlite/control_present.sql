SELECT id, created_at <= ?2 FROM tidewire_control
WHERE id > ?1
ORDER BY id

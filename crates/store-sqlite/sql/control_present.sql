SELECT id, created_at <= ?2 FROM main.tidewire_control
WHERE id > ?1
ORDER BY id

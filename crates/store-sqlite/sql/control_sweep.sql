DELETE FROM main.tidewire_control WHERE id IN (
    SELECT id FROM main.tidewire_control WHERE created_at <= ?1 ORDER BY created_at LIMIT ?2
)

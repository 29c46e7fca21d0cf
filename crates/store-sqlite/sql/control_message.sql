SELECT id, kind, body FROM main.tidewire_control WHERE id = ?1

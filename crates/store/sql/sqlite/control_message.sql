SELECT id, kind, body FROM tidewire_control WHERE id = ?1

DELETE FROM main.tidewire_sessions WHERE session_id = ?1

DELETE FROM tidewire_sessions WHERE session_id = ?1

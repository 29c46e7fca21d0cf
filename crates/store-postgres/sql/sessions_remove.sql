DELETE FROM tidewire.sessions WHERE session_id = ANY($1)

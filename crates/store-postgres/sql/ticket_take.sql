DELETE FROM tidewire.tickets WHERE ticket_hash = $1
RETURNING CASE WHEN expires_at > tidewire.now_ms() THEN holder::text END

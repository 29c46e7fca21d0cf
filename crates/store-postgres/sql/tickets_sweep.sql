DELETE FROM tidewire.tickets WHERE ticket_hash = ANY(ARRAY(
    SELECT ticket_hash FROM tidewire.tickets
    WHERE expires_at <= tidewire.now_ms()
    ORDER BY expires_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
))

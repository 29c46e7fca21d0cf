DELETE FROM main.tidewire_tickets WHERE ticket_hash IN (
    SELECT ticket_hash FROM main.tidewire_tickets WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2
)

DELETE FROM main.tidewire_tickets WHERE ticket_hash = ?1
RETURNING CASE WHEN expires_at > ?2 THEN holder END

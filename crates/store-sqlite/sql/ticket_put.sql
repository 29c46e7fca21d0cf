INSERT INTO main.tidewire_tickets (ticket_hash, holder, expires_at) VALUES (?1, ?2, ?3)
ON CONFLICT (ticket_hash) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at

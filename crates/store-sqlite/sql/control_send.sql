INSERT INTO main.tidewire_control (kind, body, created_at) VALUES (?1, ?2, ?3)

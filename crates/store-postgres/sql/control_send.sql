INSERT INTO tidewire.control (kind, body) VALUES ($1, $2::text::json)

INSERT INTO tidewire.secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING

INSERT INTO tidewire.api_keys (name, key_hash, scopes, expires_at)
VALUES ($1, $2, $3::text::jsonb, tidewire.from_now($4))
RETURNING id, name, scopes::text, tidewire.to_ms(created_at), tidewire.to_ms(last_used_at),
          is_active, tidewire.to_ms(expires_at), tidewire.to_ms(expires_at) - tidewire.now_ms()

WITH old AS (
    UPDATE tidewire.api_keys
    SET expires_at = least(expires_at, tidewire.from_now($3))
    WHERE id = $1 AND is_active AND (expires_at IS NULL OR expires_at > clock_timestamp())
    RETURNING name, scopes
)
INSERT INTO tidewire.api_keys (name, key_hash, scopes, expires_at)
SELECT name, $2, scopes, tidewire.from_now($4) FROM old
RETURNING id, name, scopes::text, tidewire.to_ms(created_at), tidewire.to_ms(last_used_at),
          is_active, tidewire.to_ms(expires_at), tidewire.to_ms(expires_at) - tidewire.now_ms()

SELECT id, name, scopes::text, tidewire.to_ms(created_at), tidewire.to_ms(last_used_at), is_active,
       tidewire.to_ms(expires_at), tidewire.to_ms(expires_at) - tidewire.now_ms()
FROM tidewire.api_keys
ORDER BY id

SELECT id, name, scopes, created_at, last_used_at, is_active, expires_at, expires_at - ?1
FROM main.tidewire_api_keys
WHERE id = ?2

INSERT INTO main.tidewire_api_keys (created_at, name, key_hash, scopes, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5)
RETURNING id, name, scopes, created_at, last_used_at, is_active, expires_at, expires_at - ?1

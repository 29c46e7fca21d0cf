UPDATE main.tidewire_api_keys
SET expires_at = min(coalesce(expires_at, ?3), ?3)
WHERE id = ?2 AND is_active AND (expires_at IS NULL OR expires_at > ?1)
RETURNING name, scopes

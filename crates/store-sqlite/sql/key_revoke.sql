UPDATE main.tidewire_api_keys SET is_active = false WHERE id = ?1

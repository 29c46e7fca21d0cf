SELECT value FROM main.tidewire_secrets WHERE name = ?1

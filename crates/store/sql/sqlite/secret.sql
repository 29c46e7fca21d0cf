SELECT value FROM tidewire_secrets WHERE name = ?1

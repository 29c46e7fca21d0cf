SELECT value FROM tidewire.secrets WHERE name = $1

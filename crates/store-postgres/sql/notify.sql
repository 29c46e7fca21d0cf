SELECT pg_notify('tidewire_log', $1)

SELECT pg_notify('tidewire_groups', $1)

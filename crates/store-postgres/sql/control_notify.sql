SELECT pg_notify('tidewire_control', '')

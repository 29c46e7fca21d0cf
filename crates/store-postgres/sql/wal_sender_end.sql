SELECT pg_catalog.pg_terminate_backend(active_pid)
FROM pg_catalog.pg_replication_slots
WHERE slot_name = tidewire.slot_name() AND active_pid IS NOT NULL

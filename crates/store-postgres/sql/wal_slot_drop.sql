SELECT pg_catalog.pg_drop_replication_slot(slot_name)
FROM pg_catalog.pg_replication_slots
WHERE slot_name = tidewire.slot_name()

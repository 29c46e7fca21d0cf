SELECT pg_catalog.pg_create_logical_replication_slot(tidewire.slot_name(), 'pgoutput')

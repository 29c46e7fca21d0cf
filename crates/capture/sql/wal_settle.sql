UPDATE tidewire.capture SET settled = $1::text::pg_catalog.pg_snapshot

SELECT pg_catalog.pg_current_snapshot()::text

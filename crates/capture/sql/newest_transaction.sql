SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint

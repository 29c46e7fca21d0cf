-- The place is read after the snapshot, so everything that the snapshot sees lies before it.
SELECT snapshot, pg_catalog.pg_current_wal_insert_lsn()
FROM (SELECT pg_catalog.pg_current_snapshot()::text AS snapshot OFFSET 0) AS taken

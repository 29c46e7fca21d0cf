SELECT active_pid, coalesce(wal_status, 'lost'), confirmed_flush_lsn,
       greatest(pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), restart_lsn), 0)::bigint,
       greatest(pg_catalog.pg_wal_lsn_diff(
           pg_catalog.pg_current_wal_insert_lsn(), confirmed_flush_lsn), 0)::bigint
FROM pg_catalog.pg_replication_slots
WHERE slot_name = $1

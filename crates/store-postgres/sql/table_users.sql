-- Who holds the tables $1, or partitions of them, by what a change of capture waits for: those who write, and
-- where the write-ahead log is the source, or is to be ($2), everyone. The oldest transaction first. Of sessions of
-- other users not all may be known to us.
SELECT pid, usename::text, nullif(application_name, ''), state,
       floor(extract(epoch FROM clock_timestamp() - xact_start))::bigint,
       tidewire.name_of_table(min(relation))
FROM pg_catalog.pg_locks
LEFT JOIN pg_catalog.pg_stat_activity USING (pid)
WHERE locktype = 'relation' AND granted AND pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
  AND pg_locks.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
  AND (mode NOT IN ('AccessShareLock', 'RowShareLock') OR $2
       OR (SELECT capture.mode = 'wal' FROM tidewire.capture))
  AND relation IN (
      SELECT wanted FROM unnest($1::oid[]) AS wanted
      UNION ALL
      SELECT tidewire.leaves(wanted) FROM unnest($1::oid[]) AS wanted
  )
GROUP BY pid, usename, application_name, state, xact_start
ORDER BY xact_start NULLS LAST, pid
LIMIT 5

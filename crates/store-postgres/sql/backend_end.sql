-- Ends the process that serves a session, if it is still the same.
SELECT count(pg_catalog.pg_terminate_backend(a.pid)) > 0
FROM pg_catalog.pg_stat_get_activity($1) AS a
WHERE a.backend_start::text = $2

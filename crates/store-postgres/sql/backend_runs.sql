-- Whether a process still serves a session: it may work on after its client is gone.
SELECT count(*) > 0
FROM pg_catalog.pg_stat_get_activity($1) AS a
WHERE a.backend_start::text = $2

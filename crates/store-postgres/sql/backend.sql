-- Which process serves this session, told apart from later ones of the same number.
SELECT a.pid::text, a.backend_start::text
FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a

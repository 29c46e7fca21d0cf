-- One node at a time measures and removes.
SELECT pg_try_advisory_xact_lock($1)

-- Who administers groups does it alone: the rows of a group's partitions come and go.
SELECT pg_advisory_xact_lock($1)

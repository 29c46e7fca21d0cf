-- Whether nobody switches now: 'tide' and 6.
SELECT pg_catalog.pg_try_advisory_lock(x'7469646500000006'::bigint)

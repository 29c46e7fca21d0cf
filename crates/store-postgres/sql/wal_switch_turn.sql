-- One switch at a time, from making the slot to using it: 'tide' and 6.
SELECT pg_catalog.pg_advisory_lock(x'7469646500000006'::bigint)

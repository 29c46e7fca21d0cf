SELECT pg_catalog.pg_advisory_unlock(x'7469646500000006'::bigint)

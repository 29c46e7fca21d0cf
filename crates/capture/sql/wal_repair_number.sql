-- A transaction's number of its own, and when it is.
SELECT pg_catalog.pg_current_xact_id()::text::bigint,
       (extract(epoch FROM clock_timestamp() - '2000-01-01 00:00:00+00'::timestamptz)
           * 1000000)::bigint

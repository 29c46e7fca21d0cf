-- Watched tables as SQL calls them, by the names that their events have.
SELECT table_name, pg_catalog.format('"%s"."%s"', replace(nspname, '"', '""'),
    replace(relname, '"', '""'))
FROM tidewire.watches
JOIN pg_catalog.pg_class ON pg_class.oid = table_id
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
WHERE table_name = ANY($1)

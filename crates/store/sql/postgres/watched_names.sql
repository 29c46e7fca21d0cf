-- The watched tables as SQL calls them: schema, name, and whether the session's search path finds it by the
-- name alone. A name that nothing on the path has is looked for in public, as `watch` does.
SELECT table_name, nspname::text, relname::text,
       pg_catalog.pg_table_is_visible(table_id) OR (
           nspname = 'public' AND pg_catalog.to_regclass(pg_catalog.quote_ident(relname)) IS NULL
       )
FROM tidewire.watches
JOIN pg_catalog.pg_class ON pg_class.oid = table_id
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
ORDER BY table_name

-- The watched tables as SQL calls them: schema, name, and whether the session's search path finds it by the
-- name alone. A name that nothing on the path has is looked for in public, as `watch` does. And the watched tables
-- that each inherits from.
SELECT table_name, nspname::text, relname::text,
       pg_catalog.pg_table_is_visible(table_id) OR (
           nspname = 'public' AND pg_catalog.to_regclass(pg_catalog.quote_ident(relname)) IS NULL
       ),
       ARRAY(
           WITH RECURSIVE above (table_id) AS (
               SELECT inhparent FROM pg_catalog.pg_inherits WHERE inhrelid = watches.table_id
               UNION
               SELECT inhparent FROM pg_catalog.pg_inherits JOIN above ON inhrelid = above.table_id
           )
           SELECT watched.table_name FROM tidewire.watches AS watched JOIN above USING (table_id)
       )
FROM tidewire.watches
JOIN pg_catalog.pg_class ON pg_class.oid = table_id
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
ORDER BY table_name

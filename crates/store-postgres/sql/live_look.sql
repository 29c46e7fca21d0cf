-- The end of the log, what this snapshot sees, and the tables that live queries ask for: each by the
-- schema ($1, or null) and name ($2) that a query has for it, or by the name that its events have ($3).
-- Names are found as the session's search path finds them, without temporary tables.
--
-- All is settled if changes come by way of the staging table, and none of these tables' is there. Many
-- rows there are not looked through.
WITH asked AS (
    SELECT place, schema_name, name, event_name
    FROM unnest($1::text[], $2::text[], $3::text[])
        WITH ORDINALITY AS asked (schema_name, name, event_name, place)
),
paths AS (
    SELECT nspname, step
    FROM unnest(pg_catalog.current_schemas(true)) WITH ORDINALITY AS path (nspname, step)
    WHERE nspname NOT LIKE 'pg\_temp\_%'
),
found AS (
    SELECT place, relation.oid, relation.relname, pg_namespace.nspname, relation.relkind,
           relation.relrowsecurity, watches.table_name, watches.stream_id,
           watches.key_columns, watches.host_column
    FROM asked
    CROSS JOIN LATERAL (
        SELECT table_id AS oid FROM tidewire.watches WHERE table_name = event_name
        UNION ALL
        (SELECT pg_class.oid
         FROM pg_catalog.pg_class
         JOIN pg_catalog.pg_namespace AS held ON held.oid = relnamespace
         LEFT JOIN paths ON paths.nspname = held.nspname
         WHERE relname = name AND event_name IS NULL AND relkind IN ('r', 'p', 'v', 'm', 'f')
           AND relpersistence <> 't'
           AND CASE WHEN schema_name IS NULL THEN step IS NOT NULL
                    ELSE held.nspname = schema_name END
         ORDER BY step LIMIT 1)
    ) AS named
    JOIN pg_catalog.pg_class AS relation ON relation.oid = named.oid
    JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relation.relnamespace
    LEFT JOIN tidewire.watches ON table_id = relation.oid
    WHERE relation.relkind IN ('r', 'p')
      AND pg_namespace.nspname NOT IN ('pg_catalog', 'information_schema', 'tidewire', 'pg_toast')
)
SELECT coalesce((SELECT c_offset FROM tidewire.log ORDER BY c_offset DESC LIMIT 1), 0) AS tip,
       pg_catalog.pg_current_snapshot()::text AS snapshot,
       (SELECT mode = 'outbox' FROM tidewire.capture) AND (
           SELECT count(*) < 1000
               AND count(*) FILTER (WHERE stream_id IN (SELECT stream_id FROM found)) = 0
           FROM (SELECT stream_id FROM tidewire.staging LIMIT 1000) AS staged
       ) AS settled,
       asked.place, found.oid, found.table_name IS NOT NULL AS watched,
       coalesce(found.table_name, tidewire.name_of_table(found.oid)) AS event_name,
       pg_catalog.format('"%s"."%s"', replace(found.nspname, '"', '""'),
           replace(found.relname, '"', '""')) AS sql_name,
       found.key_columns, found.host_column, found.relrowsecurity,
       found.relkind = 'r' AND EXISTS (
           SELECT FROM pg_catalog.pg_inherits WHERE inhparent = found.oid
       ) AS inherited,
       (
           -- Name, type, collation, whether generated, scale, whether its text is not its image, and
           -- the type's number.
           SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(
               attname,
               CASE WHEN typnamespace = 'pg_catalog'::pg_catalog.regnamespace THEN typname::text
                    ELSE CASE WHEN typtype = 'e' THEN 'enum ' ELSE '' END
                        || typnamespace::pg_catalog.regnamespace || '.' || quote_ident(typname) END,
               CASE WHEN attcollation = 0 THEN NULL
                    WHEN collnamespace <> 'pg_catalog'::pg_catalog.regnamespace
                    THEN collnamespace::pg_catalog.regnamespace || '.'
                        || '"' || replace(collname, '"', '""') || '"'
                    WHEN collprovider = 'd' AND by_bytes
                      OR collprovider = 'c' AND collcollate IN ('C', 'POSIX') THEN 'C'
                    ELSE collname::text END,
               attgenerated <> '',
               CASE WHEN atttypid = 'pg_catalog.numeric'::pg_catalog.regtype AND atttypmod > 0
                    THEN greatest(0, (((atttypmod - 4) & 2047) # 1024) - 1024) END,
               -- Most types are the database's own, of which this is known: looking costs more than all else.
               CASE WHEN typcategory = 'A' THEN true
                    WHEN atttypid < 16384 AND pg_type.typtype = 'b'
                    THEN atttypid = 'pg_catalog.json'::pg_catalog.regtype
                    ELSE EXISTS (
                   WITH RECURSIVE bases (base) AS (
                       SELECT atttypid
                       UNION
                       SELECT typbasetype FROM bases
                       JOIN pg_catalog.pg_type AS domains ON domains.oid = base
                       WHERE domains.typtype = 'd'
                   )
                   SELECT FROM bases
                   JOIN pg_catalog.pg_type AS kinds ON kinds.oid = base
                   WHERE kinds.typtype = 'c' OR base = 'pg_catalog.json'::pg_catalog.regtype
                      OR EXISTS (
                          SELECT FROM pg_catalog.pg_cast
                          WHERE castsource = base AND base >= 16384 AND castfunc <> 0
                            AND casttarget IN (
                                'pg_catalog.json'::pg_catalog.regtype,
                                'pg_catalog.jsonb'::pg_catalog.regtype
                            )
                      )
               ) END,
               atttypid::bigint
           ) ORDER BY attnum)::text
           FROM pg_catalog.pg_attribute
           CROSS JOIN (
               -- Before version 15 there was one provider, and no column for it.
               SELECT datcollate IN ('C', 'POSIX')
                   AND coalesce(to_jsonb(pg_database) ->> 'datlocprovider', 'c') = 'c' AS by_bytes
               FROM pg_catalog.pg_database WHERE datname = current_database()
           ) AS own
           JOIN pg_catalog.pg_type ON pg_type.oid = atttypid
           LEFT JOIN pg_catalog.pg_collation ON pg_collation.oid = attcollation
           WHERE attrelid = found.oid AND attnum > 0 AND NOT attisdropped
             AND found.table_name IS NOT NULL
       ) AS columns
FROM (SELECT) AS always
LEFT JOIN asked ON true
LEFT JOIN found ON found.place = asked.place
ORDER BY asked.place

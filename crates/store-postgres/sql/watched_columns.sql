-- The columns of a watched table, by the name that its events have; or one row of nulls if there is such
-- a table and it is not watched. A collation of the database itself is known by how it compares.
WITH watched AS (
    SELECT table_id, key_columns, host_column FROM tidewire.watches WHERE table_name = $1
)
SELECT attname::text,
       CASE WHEN typnamespace = 'pg_catalog'::regnamespace THEN typname::text
            ELSE CASE WHEN typtype = 'e' THEN 'enum ' ELSE '' END
                || typnamespace::regnamespace || '.' || quote_ident(typname) END,
       CASE WHEN attcollation = 0 THEN NULL
            WHEN collnamespace <> 'pg_catalog'::regnamespace
            THEN collnamespace::regnamespace || '.' || '"' || replace(collname, '"', '""') || '"'
            WHEN collprovider = 'd' AND by_bytes
              OR collprovider = 'c' AND collcollate IN ('C', 'POSIX') THEN 'C'
            ELSE collname::text END,
       key_columns, host_column
FROM watched
CROSS JOIN (
    -- Before version 15 there was one provider, and no column for it.
    SELECT datcollate IN ('C', 'POSIX')
        AND coalesce(to_jsonb(pg_database) ->> 'datlocprovider', 'c') = 'c' AS by_bytes
    FROM pg_database WHERE datname = current_database()
) AS own
JOIN pg_attribute ON attrelid = table_id AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
JOIN pg_type ON pg_type.oid = atttypid
LEFT JOIN pg_collation ON pg_collation.oid = attcollation
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL
WHERE NOT EXISTS (SELECT FROM watched) AND EXISTS (
    SELECT FROM pg_class
    WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND position(relname IN $1) > 0
      AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'tidewire'::regnamespace)
      AND tidewire.name_of_table(oid) = $1
)

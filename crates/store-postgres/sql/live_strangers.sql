-- How many of the relations that a plan scans ($1: schemas, $2: names) are not among some tables ($3),
-- nor partitions of them.
SELECT count(*)
FROM unnest($1::text[], $2::text[]) AS scanned (schema_name, name)
WHERE NOT EXISTS (
    SELECT FROM pg_catalog.pg_class
    JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = schema_name AND relname = name AND (
        pg_class.oid = ANY($3::oid[]) OR EXISTS (
            SELECT FROM pg_catalog.pg_partition_ancestors(pg_class.oid) AS above (relid)
            WHERE above.relid = ANY($3::oid[])
        )
    )
)

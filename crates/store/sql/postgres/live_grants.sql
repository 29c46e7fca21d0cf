-- What has to be granted to a role ($1) before it can read watched tables ($2, by their events' names),
-- as statements. Empty if nothing has.
SELECT DISTINCT grants.statement
FROM tidewire.watches
JOIN pg_catalog.pg_class ON pg_class.oid = table_id
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
JOIN pg_catalog.pg_roles ON rolname = $1
CROSS JOIN LATERAL (
    VALUES (
        pg_catalog.has_schema_privilege(pg_roles.oid, pg_namespace.oid, 'USAGE'),
        pg_catalog.format('GRANT USAGE ON SCHEMA %I TO %I', nspname, rolname)
    ), (
        pg_catalog.has_table_privilege(pg_roles.oid, pg_class.oid, 'SELECT'),
        pg_catalog.format('GRANT SELECT ON %I.%I TO %I', nspname, relname, rolname)
    )
) AS grants (had, statement)
WHERE table_name = ANY($2) AND NOT had
ORDER BY 1 DESC

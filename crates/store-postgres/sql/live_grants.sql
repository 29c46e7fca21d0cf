-- What has to be granted to a role ($1), which may not be there yet, before it can read watched tables ($2, by
-- their events' names; all of them if NULL), as statements, and whether we may run each. Empty if nothing has.
SELECT DISTINCT grants.statement, grants.may
FROM tidewire.watches
JOIN pg_catalog.pg_class ON pg_class.oid = table_id
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
LEFT JOIN pg_catalog.pg_roles ON rolname = $1::text
CROSS JOIN LATERAL (
    -- A role that is made gets what everyone has.
    VALUES (
        coalesce(
            pg_catalog.has_schema_privilege(pg_roles.oid, pg_namespace.oid, 'USAGE'),
            pg_catalog.has_schema_privilege('public', pg_namespace.oid, 'USAGE')
        ),
        pg_catalog.pg_has_role(current_user, nspowner, 'USAGE')
            OR pg_catalog.has_schema_privilege(pg_namespace.oid, 'USAGE WITH GRANT OPTION'),
        pg_catalog.format('GRANT USAGE ON SCHEMA %I TO %I', nspname, $1::text)
    ), (
        coalesce(
            pg_catalog.has_table_privilege(pg_roles.oid, pg_class.oid, 'SELECT'),
            pg_catalog.has_table_privilege('public', pg_class.oid, 'SELECT')
        ),
        pg_catalog.pg_has_role(current_user, relowner, 'USAGE')
            OR pg_catalog.has_table_privilege(pg_class.oid, 'SELECT WITH GRANT OPTION'),
        pg_catalog.format('GRANT SELECT ON %I.%I TO %I', nspname, relname, $1::text)
    )
) AS grants (had, may, statement)
WHERE ($2::text[] IS NULL OR table_name = ANY($2)) AND NOT had
ORDER BY 1 DESC

-- What takes from others whatever default privileges have given them on some names that were just made,
-- a statement each.
WITH wanted AS (
    SELECT pg_namespace.oid, schema_name, name
    FROM unnest($1::text[], $2::text[]) AS wanted (schema_name, name)
    JOIN pg_namespace ON nspname = schema_name
), given AS (
    SELECT format('TABLE %I.%I', schema_name, name) AS what, (aclexplode(relacl)).grantee, relowner AS owner
    FROM wanted JOIN pg_class ON relnamespace = wanted.oid AND relname = name
    UNION ALL
    SELECT format('FUNCTION %s', pg_proc.oid::regprocedure), (aclexplode(proacl)).grantee, proowner
    FROM wanted JOIN pg_proc ON pronamespace = wanted.oid AND proname = name
)
SELECT DISTINCT format(
    'REVOKE ALL ON %s FROM %s', what,
    CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END
)
FROM given
WHERE grantee <> owner

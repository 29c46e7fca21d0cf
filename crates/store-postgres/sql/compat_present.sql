-- Which of some names are taken, and whether by what an earlier run has made: what bears its comment and
-- belongs to us. A name may be taken more than once: functions of the same name differ in their
-- arguments.
WITH wanted AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::boolean[])
        WITH ORDINALITY AS wanted (schema_name, name, is_function, place)
    JOIN pg_namespace ON nspname = schema_name
)
SELECT schema_name, name,
       coalesce(bool_and(
           said LIKE $4 AND owner IN (
               current_user::regrole::oid,
               (SELECT nspowner FROM pg_namespace WHERE nspname = 'tidewire')
           )
       ), false)
FROM (
    SELECT wanted.*, obj_description(pg_class.oid, 'pg_class') AS said,
           relowner AS owner
    FROM wanted JOIN pg_class ON relnamespace = wanted.oid AND relname = name
    WHERE NOT is_function
    UNION ALL
    SELECT wanted.*, obj_description(pg_proc.oid, 'pg_proc'), proowner
    FROM wanted JOIN pg_proc ON pronamespace = wanted.oid AND proname = name
    WHERE is_function
) AS taken
GROUP BY schema_name, name, place
ORDER BY place

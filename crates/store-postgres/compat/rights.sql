-- The functions behind the views' triggers work with the rights of whoever migrated, and a trigger can be
-- made by whoever may execute its function: nobody else may. Firing a trigger asks for no such right.
DO $$
DECLARE
    own regprocedure;
BEGIN
    FOR own IN
        SELECT pg_proc.oid FROM pg_catalog.pg_proc
        JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pronamespace
        WHERE nspname = 'tidewire' AND starts_with(proname, 'compat_')
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', own);
    END LOOP;
END;
$$;

-- A row of the log costs less. Payloads and images of some KiB are compressed, and pglz, the default, takes several
-- times as long for that as all the rest of the insert. lz4 takes a fraction of it, where the server was built with
-- it. What is there stays as it is and is read as before; partitions of the log that are made later are like the
-- log. (SQLite's part of this number has no counterpart here: a list that a column is tested against costs little.)
DO $$
DECLARE
    col record;
BEGIN
    IF EXISTS (
        SELECT FROM pg_catalog.pg_settings
        WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)
    ) THEN
        FOR col IN
            SELECT attribute.attrelid::regclass AS relation, attribute.attname AS name
            FROM pg_catalog.pg_attribute AS attribute
            JOIN pg_catalog.pg_class AS class ON class.oid = attribute.attrelid
            WHERE class.relnamespace = 'tidewire'::regnamespace
              AND class.relkind IN ('r', 'p')
              AND (class.relname = 'log' OR class.relispartition
                   OR class.relname IN ('staging', 'log_archive', 'dead_letters', 'consumer_dead_letters'))
              AND attribute.attname IN ('payload', 'before_data', 'after_data')
            ORDER BY 1, 2
        LOOP
            EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET COMPRESSION lz4', col.relation, col.name);
        END LOOP;
    END IF;
END;
$$;

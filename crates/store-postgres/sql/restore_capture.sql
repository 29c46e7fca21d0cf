-- What depends on numbers that a database gives for itself: of tables, of transactions, of places in
-- the write-ahead log. In a restored database they are others, or mean something else.
DO $$
DECLARE
    watched record;
    found   oid;
    attach  text := 'tidewire.attach_watch';
BEGIN
    -- Staged transactions get numbers of the past, each its own as far as there are enough, in the same
    -- order; a transaction that is yet to come has none of these.
    CREATE TEMPORARY TABLE renumbered ON COMMIT DROP AS
        SELECT txid AS old, greatest(1, pg_current_xact_id()::text::bigint
            - row_number() OVER (ORDER BY max(id) DESC)) AS new
        FROM tidewire.staging
        GROUP BY txid;
    UPDATE tidewire.staging SET txid = new FROM renumbered WHERE txid = old;
    IF to_regclass('tidewire.capture') IS NULL THEN
        RETURN;
    END IF;
    UPDATE tidewire.capture SET
        leader = NULL,
        generation = generation + 1,
        chunk_txid = (SELECT new FROM renumbered WHERE old = chunk_txid);
    -- A slot is not part of a backup. The triggers are the source until a node chooses again.
    IF to_regclass('tidewire.wal_places') IS NOT NULL THEN
        UPDATE tidewire.capture SET
            mode = 'outbox', reason = 'the database was restored from a backup',
            settled = NULL, staged_until = NULL, finishing = false;
        DELETE FROM tidewire.wal_places;
        DELETE FROM tidewire.replica_identities;
        attach := 'tidewire.attach_triggers';
    END IF;
    -- Watches follow tables by number.
    CREATE TEMPORARY TABLE rewatched ON COMMIT DROP AS
        SELECT * FROM tidewire.watches;
    DELETE FROM tidewire.watches;
    FOR watched IN SELECT * FROM rewatched LOOP
        SELECT oid INTO found FROM pg_class
        WHERE relkind IN ('r', 'p')
          AND tidewire.name_of_table(oid) = coalesce(watched.shape ->> 'table', watched.table_name);
        IF found IS NULL THEN
            RAISE WARNING 'the watched table % is not in this database', watched.table_name
                USING HINT = 'It is watched no longer; watch it again when it is there.';
            CONTINUE;
        END IF;
        UPDATE rewatched SET table_id = found WHERE stream_id = watched.stream_id;
        INSERT INTO tidewire.watches SELECT * FROM rewatched WHERE stream_id = watched.stream_id;
        EXECUTE format('SELECT %s(%s)', attach, found);
    END LOOP;
END;
$$

-- Capture from the write-ahead log: how far it was read, what was changed on watched tables so that
-- their changes can be read there, and the switch between the two sources.

-- How far the log has got, one row for each append: the newest counts. Rows are added, not changed, so
-- that an old snapshot somewhere cannot make reading the newest slow; and a place that was taken by
-- another node fails by its key.
CREATE TABLE tidewire.wal_places (
    id         bigint PRIMARY KEY,
    -- Transactions that end here or before are in the log.
    lsn        pg_lsn NOT NULL,
    -- A transaction that is in the log in part: where its commit lies, and how many changes are there.
    commit_lsn pg_lsn,
    changes    bigint NOT NULL DEFAULT 0
);

-- The last snapshot of which it is known that everything it sees is in the log, and where reading
-- started. If the slot is lost, what this snapshot does not see is the gap.
ALTER TABLE tidewire.capture ADD COLUMN settled pg_snapshot;
-- Staged rows up to this id were written while triggers were the source. The sequencer takes them to
-- the log before the slot is read.
ALTER TABLE tidewire.capture ADD COLUMN staged_until bigint;
-- The source is the outbox again, and the slot is still to be read up to the switch.
ALTER TABLE tidewire.capture ADD COLUMN finishing boolean NOT NULL DEFAULT false;
-- The slot was lost, for this reason, and the tables are being compared with the log. Begun again if
-- that is interrupted.
ALTER TABLE tidewire.capture ADD COLUMN repairing text;
-- The source was chosen by a person, and no node's own choice replaces it.
ALTER TABLE tidewire.capture ADD COLUMN chosen boolean NOT NULL DEFAULT false;

-- The replica identity that watched tables and their partitions had before.
CREATE TABLE tidewire.replica_identities (
    table_id oid    PRIMARY KEY,
    root_id  oid    NOT NULL,
    identity "char" NOT NULL,
    index_id oid
);

-- By this name the slot is known: slots are the server's, not the database's.
CREATE FUNCTION tidewire.slot_name() RETURNS text
LANGUAGE sql STABLE SET search_path = '' AS $$
    SELECT 'tidewire_' || oid FROM pg_database WHERE datname = current_database()
$$;

-- The publications that the slot is read with. They are there before the slot is, because reading
-- fails where they are not; and empty until the switch.
CREATE FUNCTION tidewire.make_publications() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'tidewire_tables') THEN
        CREATE PUBLICATION tidewire_tables WITH (publish_via_partition_root = true);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'tidewire_staging') THEN
        CREATE PUBLICATION tidewire_staging WITH (publish = 'insert');
    END IF;
END;
$$;

-- Puts a table, with its partitions, into the slot's reach: the row before is written whole.
CREATE FUNCTION tidewire.attach_wal(watched oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_class
               WHERE oid = watched AND (relpersistence <> 'p' OR relkind NOT IN ('r', 'p'))) THEN
        RAISE EXCEPTION '% cannot be captured from the write-ahead log: it is not an ordinary logged table',
            watched::regclass
            USING HINT = 'ALTER TABLE … SET LOGGED, or capture = "outbox"';
    END IF;
    PERFORM tidewire.identify_whole(watched);
    IF NOT EXISTS (SELECT FROM pg_publication_rel r
                   JOIN pg_publication p ON p.oid = r.prpubid
                   WHERE p.pubname = 'tidewire_tables' AND r.prrelid = watched) THEN
        EXECUTE format('ALTER PUBLICATION tidewire_tables ADD TABLE ONLY %s', watched::regclass);
    END IF;
    -- The reader looks at the watches again from here on.
    PERFORM pg_logical_emit_message(true, 'tidewire.watch', watched::text);
END;
$$;

-- Sets REPLICA IDENTITY FULL on a table and its partitions, as far as they do not have it, and
-- remembers what they had. Returns how many it was set on.
CREATE FUNCTION tidewire.identify_whole(watched oid) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    part   record;
    set_on bigint := 0;
BEGIN
    DELETE FROM tidewire.replica_identities
    WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid = table_id);
    FOR part IN
        SELECT c.oid, c.relreplident,
               (SELECT i.indexrelid FROM pg_index i
                WHERE i.indrelid = c.oid AND i.indisreplident) AS index_id
        FROM pg_class c
        WHERE (c.oid = watched OR c.oid IN (SELECT relid FROM pg_partition_tree(watched)))
          AND c.relkind IN ('r', 'p') AND c.relreplident <> 'f'
        ORDER BY c.oid
    LOOP
        INSERT INTO tidewire.replica_identities (table_id, root_id, identity, index_id)
            VALUES (part.oid, watched, part.relreplident, part.index_id)
            ON CONFLICT (table_id) DO NOTHING;
        EXECUTE format('ALTER TABLE ONLY %s REPLICA IDENTITY FULL', part.oid::regclass);
        set_on := set_on + 1;
    END LOOP;
    RETURN set_on;
END;
$$;

-- Takes a table out of the slot's reach, and gives it the replica identity back that it had. A table
-- that is gone needs neither.
CREATE FUNCTION tidewire.detach_wal(watched oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    part record;
BEGIN
    IF EXISTS (SELECT FROM pg_publication_rel r
               JOIN pg_publication p ON p.oid = r.prpubid
               WHERE p.pubname = 'tidewire_tables' AND r.prrelid = watched) THEN
        EXECUTE format('ALTER PUBLICATION tidewire_tables DROP TABLE ONLY %s', watched::regclass);
    END IF;
    FOR part IN
        DELETE FROM tidewire.replica_identities WHERE root_id = watched
        RETURNING table_id, identity, index_id
    LOOP
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_class
                                  WHERE oid = part.table_id AND relreplident = 'f');
        EXECUTE format('ALTER TABLE ONLY %s REPLICA IDENTITY ', part.table_id::regclass) || CASE
            WHEN part.identity = 'n' THEN 'NOTHING'
            WHEN part.identity = 'i' AND EXISTS (
                SELECT FROM pg_index WHERE indexrelid = part.index_id
                    AND indrelid = part.table_id)
                THEN format('USING INDEX %I', (SELECT relname FROM pg_class
                                               WHERE oid = part.index_id))
            ELSE 'DEFAULT'
        END;
    END LOOP;
    PERFORM pg_logical_emit_message(true, 'tidewire.watch', watched::text);
END;
$$;

-- From here on the source decides how a watched table's changes are made known.
ALTER FUNCTION tidewire.attach_watch(oid) RENAME TO attach_triggers;
ALTER FUNCTION tidewire.detach_watch(oid) RENAME TO detach_triggers;

CREATE FUNCTION tidewire.attach_watch(wanted oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    -- Against a switch at the same time: it holds a lock that this one waits for.
    LOCK TABLE tidewire.watches IN ROW EXCLUSIVE MODE;
    IF (SELECT mode FROM tidewire.capture) = 'wal' THEN
        PERFORM tidewire.attach_wal(wanted);
    ELSE
        PERFORM tidewire.attach_triggers(wanted);
    END IF;
END;
$$;

CREATE FUNCTION tidewire.detach_watch(wanted oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    PERFORM tidewire.detach_triggers(wanted);
    PERFORM tidewire.detach_wal(wanted);
END;
$$;

-- Who does what follows in this transaction. Triggers read it from the settings; in the write-ahead
-- log it stands as a message before the changes.
CREATE OR REPLACE FUNCTION tidewire.set_actor(user_id text, host_id text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    PERFORM set_config('tidewire.user_id', coalesce(user_id, ''), true),
            set_config('tidewire.host_id', coalesce(host_id, ''), true);
    IF (SELECT mode FROM tidewire.capture) = 'wal' THEN
        PERFORM pg_logical_emit_message(true, 'tidewire.actor', jsonb_build_object(
            'user_id', nullif(user_id, ''), 'host_id', nullif(host_id, ''))::text);
    END IF;
END;
$$;

-- Takes changes from another source from here on. Whoever has written to a watched table, or staged
-- something, is waited for, and whoever comes later waits for this: so every transaction is in one of
-- the two sources, whole.
--
-- To the write-ahead log: the slot is there already and has seen nothing of watched tables yet. What
-- is staged up to here is taken to the log before the slot is read.
-- To the outbox: a message in the slot's stream is the place up to which it is still read, before
-- anything staged is taken to the log.
CREATE FUNCTION tidewire.switch_capture(
    wanted text, why text DEFAULT 'it was asked for', by_person boolean DEFAULT true
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    now_in tidewire.capture;
    watch  record;
    start  pg_lsn;
BEGIN
    IF wanted IS NULL OR wanted NOT IN ('outbox', 'wal') THEN
        RAISE EXCEPTION '% is not a source of changes', coalesce(quote_literal(wanted), 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It is ''wal'' or ''outbox''.';
    END IF;
    SELECT * INTO now_in FROM tidewire.capture;
    IF now_in.mode = wanted THEN
        UPDATE tidewire.capture SET reason = why, chosen = by_person;
        RETURN;
    END IF;
    -- As writers do: tables first, staging last.
    FOR watch IN SELECT table_id FROM tidewire.watches ORDER BY table_id LOOP
        PERFORM tidewire.lock_against_writers(watch.table_id);
    END LOOP;
    LOCK TABLE tidewire.watches IN SHARE ROW EXCLUSIVE MODE;
    FOR watch IN SELECT table_id FROM tidewire.watches ORDER BY table_id LOOP
        PERFORM tidewire.lock_against_writers(watch.table_id);
    END LOOP;
    LOCK TABLE tidewire.staging IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO now_in FROM tidewire.capture FOR UPDATE;
    IF wanted = 'wal' THEN
        IF now_in.finishing THEN
            RAISE EXCEPTION 'the switch to the outbox is not finished yet'
                USING ERRCODE = 'object_in_use', HINT = 'Ask again when it is.';
        END IF;
        SELECT confirmed_flush_lsn INTO start FROM pg_replication_slots
        WHERE slot_name = tidewire.slot_name() AND wal_status IS DISTINCT FROM 'lost';
        IF start IS NULL THEN
            RAISE EXCEPTION 'there is no replication slot %', tidewire.slot_name() USING
                ERRCODE = 'undefined_object',
                HINT = 'Switch by the tidewire command, which makes it; or run SELECT '
                    'tidewire.make_publications(), then SELECT pg_create_logical_replication_slot('
                    'tidewire.slot_name(), ''pgoutput''), each in a transaction of its own.';
        END IF;
        FOR watch IN SELECT table_id FROM tidewire.watches ORDER BY table_id LOOP
            CONTINUE WHEN NOT EXISTS (SELECT FROM pg_class WHERE oid = watch.table_id);
            PERFORM tidewire.detach_triggers(watch.table_id);
            PERFORM tidewire.attach_wal(watch.table_id);
        END LOOP;
        ALTER PUBLICATION tidewire_staging SET TABLE tidewire.staging;
        PERFORM tidewire.set_place(start);
        UPDATE tidewire.capture SET mode = 'wal', reason = why, chosen = by_person,
            settled = pg_current_snapshot(),
            staged_until = coalesce(pg_sequence_last_value(
                pg_get_serial_sequence('tidewire.staging', 'id')::regclass), 0);
    ELSE
        FOR watch IN SELECT table_id FROM tidewire.watches ORDER BY table_id LOOP
            CONTINUE WHEN NOT EXISTS (SELECT FROM pg_class WHERE oid = watch.table_id);
            PERFORM tidewire.detach_wal(watch.table_id);
            PERFORM tidewire.attach_triggers(watch.table_id);
        END LOOP;
        ALTER PUBLICATION tidewire_staging DROP TABLE tidewire.staging;
        UPDATE tidewire.capture SET mode = 'outbox', reason = why, chosen = by_person,
            finishing = true;
        PERFORM pg_logical_emit_message(true, 'tidewire.capture', 'outbox');
    END IF;
    PERFORM tidewire.wake_sequencer();
END;
$$;

-- The lock that all writers of a table wait for. It is the strongest, because changing the replica
-- identity takes that one anyway, and a lock that is made stronger later is how deadlocks come about.
CREATE FUNCTION tidewire.lock_against_writers(wanted oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_class WHERE oid = wanted) THEN
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', wanted::regclass);
    END IF;
END;
$$;

-- Reading goes on here, whatever was read before.
CREATE FUNCTION tidewire.set_place(start pg_lsn) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = '' AS $$
    INSERT INTO tidewire.wal_places (id, lsn)
        SELECT coalesce(max(id), 0) + 1, start FROM tidewire.wal_places;
    DELETE FROM tidewire.wal_places WHERE id < (SELECT max(id) FROM tidewire.wal_places);
$$;

-- A row's key as text, as events have it.
CREATE FUNCTION tidewire.row_key(image jsonb, keys text[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = '' AS $$
    SELECT CASE cardinality(keys)
        WHEN 0 THEN image::text
        WHEN 1 THEN image ->> keys[1]
        ELSE (SELECT jsonb_agg(image -> name ORDER BY place)::text
              FROM unnest(keys) WITH ORDINALITY AS key (name, place))
    END
$$;

-- How a watched table differs from what the log says of it: changes that were not captured. Rows that
-- the log knows are compared by key, in the columns that both have; of the others, those are new that
-- a transaction wrote which the settled snapshot does not see. In a snapshot of the caller's.
CREATE FUNCTION tidewire.differences(watched oid, settled pg_snapshot)
RETURNS TABLE (operation text, before_data jsonb, after_data jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = '' SET TimeZone = 'UTC'
SET DateStyle = 'ISO, MDY' SET IntervalStyle = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET enable_seqscan = on SET enable_hashjoin = on AS $$
DECLARE
    watch     tidewire.watches;
    known     CONSTANT text[] := tidewire.trigger_arguments(watched);
    bytes     CONSTANT text[] := coalesce(nullif(known[5], '')::text[], '{}');
    generated CONSTANT text[] := coalesce(nullif(known[6], '')::text[], '{}');
    newest    CONSTANT bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    since     bigint;
BEGIN
    SELECT * INTO STRICT watch FROM tidewire.watches WHERE table_id = watched;
    SELECT coalesce(max(c_offset), 0) INTO since FROM tidewire.log
    WHERE log.stream_id = watch.stream_id AND log.operation = 'TRUNCATE' AND control IS NULL;
    RETURN QUERY EXECUTE format($query$
        WITH effects AS (
            SELECT entity_id AS key, after_data AS image, c_offset, 1 AS rank, 1 AS more
            FROM tidewire.log
            WHERE stream_id = $1 AND control IS NULL AND c_offset > $2
            UNION ALL
            -- What an UPDATE or a DELETE did away with, where that is another key's row, or there are
            -- no keys and rows are counted.
            SELECT tidewire.row_key(before_data, $3), NULL, c_offset, 0, -1
            FROM tidewire.log
            WHERE stream_id = $1 AND control IS NULL AND c_offset > $2 AND before_data IS NOT NULL
              AND (cardinality($3) = 0
                   OR entity_id IS DISTINCT FROM tidewire.row_key(before_data, $3))
        ), told AS (
            SELECT DISTINCT ON (key) key, image, 1 AS copy
            FROM effects WHERE cardinality($3) > 0
            ORDER BY key, c_offset DESC, rank DESC
        ), counted AS (
            SELECT key, sum(more * CASE WHEN rank = 1 AND image IS NULL THEN 0 ELSE 1 END) AS copies
            FROM effects WHERE cardinality($3) = 0 GROUP BY key
        ), logged AS (
            SELECT key, image, copy FROM told WHERE image IS NOT NULL
            UNION ALL
            SELECT key, key::jsonb, copy::integer
            FROM counted CROSS JOIN generate_series(1, copies) AS copy
        ), stored AS (
            SELECT tidewire.row_key(image, $3) AS key, image, in_gap,
                   CASE WHEN cardinality($3) > 0 THEN 1 ELSE row_number() OVER (
                       PARTITION BY CASE WHEN cardinality($3) = 0 THEN image END ORDER BY in_gap
                   ) END AS copy
            FROM (
                SELECT tidewire.bytes_in_base64(to_jsonb(t) - $4, $5) AS image,
                       xid >= 3 AND NOT pg_visible_in_snapshot(
                           ($7 - (($7 - xid) & 4294967295))::text::xid8, $6) AS in_gap
                FROM %s AS t CROSS JOIN LATERAL (SELECT t.xmin::text::bigint) AS wrote (xid)
            ) AS read
        )
        SELECT CASE WHEN logged.key IS NULL THEN 'INSERT' WHEN stored.key IS NULL THEN 'DELETE'
                    ELSE 'UPDATE' END,
               logged.image, stored.image
        FROM logged FULL JOIN stored
            ON logged.key = stored.key AND logged.copy = stored.copy
        WHERE CASE
            WHEN logged.key IS NULL THEN in_gap
            WHEN stored.key IS NULL THEN true
            WHEN logged.image = stored.image THEN false
            ELSE EXISTS (
                SELECT FROM jsonb_each(logged.image) AS was
                WHERE stored.image ? was.key AND stored.image -> was.key IS DISTINCT FROM was.value
            )
        END
    $query$, watched::regclass)
    USING watch.stream_id, since, watch.key_columns, generated, bytes, settled, newest;
END;
$$;

-- Whether a text can be kept as JSON. (What the type json takes, jsonb may not: the character zero.)
CREATE FUNCTION tidewire.is_json(given text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = '' AS $$
BEGIN
    RETURN given::jsonb IS NOT NULL;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN false;
END;
$$;

REVOKE EXECUTE ON FUNCTION
    tidewire.make_publications(), tidewire.attach_wal(oid), tidewire.identify_whole(oid),
    tidewire.detach_wal(oid), tidewire.attach_watch(oid), tidewire.detach_watch(oid),
    tidewire.switch_capture(text, text, boolean), tidewire.lock_against_writers(oid),
    tidewire.set_place(pg_lsn), tidewire.differences(oid, pg_snapshot)
FROM PUBLIC;

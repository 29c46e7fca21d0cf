-- What happens to a watched table past row triggers and the write-ahead log: partitions that come, go or are
-- emptied, triggers that are disabled, types whose values get other names. Each is noticed, told to those who
-- follow the table, and brought into the log as the difference between the table and the log. And: the order of
-- what statements within statements do. (Long because it is one step of the schema.)
--
-- Event triggers would say some of it at once, but only a superuser can make them. What is here works for whoever
-- owns the tables: triggers for TRUNCATE on the partitions, and a look at the catalogs every second.

-- Whether someone has said where changes come from. Until then the source is only the one that was there first.
ALTER TABLE tidewire.capture ADD COLUMN decided boolean NOT NULL DEFAULT false;
UPDATE tidewire.capture SET decided = reason <> 'no node has decided yet';

ALTER TABLE tidewire.watches
    -- A snapshot of which it is known that everything it sees of the table was captured.
    ADD COLUMN settled pg_snapshot,
    -- What `last_offset` was before events were last counted: no partition that is not known yet has events
    -- before it.
    ADD COLUMN counted_before bigint,
    -- When the table was last compared with the log, why, and how many events that took. No events: it was not
    -- compared, and those who follow it were told to read it again.
    ADD COLUMN repaired_at timestamptz,
    ADD COLUMN repaired_why text,
    ADD COLUMN repaired_events bigint;

-- Tables that are to be compared with the log, and why. Rows are added by writers, so nobody waits for anyone.
CREATE TABLE tidewire.repairs (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    table_id oid  NOT NULL,
    why      text NOT NULL
);

-- The partitions of a table that have rows of their own. By the catalog alone, because asking for the tree takes
-- a lock on every partition.
CREATE FUNCTION tidewire.leaves(wanted oid) RETURNS SETOF oid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    WITH RECURSIVE tree (id) AS (
        SELECT oid FROM pg_class WHERE oid = wanted AND relkind = 'p'
        UNION ALL
        SELECT inhrelid FROM pg_inherits JOIN tree ON inhparent = id WHERE NOT inhdetachpending
    )
    SELECT id FROM tree JOIN pg_class ON oid = id WHERE relkind = 'r'
$$;

-- The names that the types of a table's columns put into its rows: labels of enums by their oid, fields of
-- composite types by type and number. Types inside of types count too.
CREATE FUNCTION tidewire.names_in_types(wanted oid) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    WITH RECURSIVE types (id) AS (
        SELECT atttypid FROM pg_attribute
        WHERE attrelid = wanted AND attnum > 0 AND NOT attisdropped AND atttypid >= 16384
        UNION
        SELECT inner_id FROM types
        JOIN pg_type ON pg_type.oid = id
        CROSS JOIN LATERAL (
            SELECT typbasetype WHERE typtype = 'd'
            UNION ALL SELECT typelem
            UNION ALL SELECT rngsubtype FROM pg_range WHERE id IN (rngtypid, rngmultitypid)
            UNION ALL SELECT atttypid FROM pg_attribute
                WHERE typtype = 'c' AND attrelid = typrelid AND attnum > 0 AND NOT attisdropped
        ) AS inside (inner_id)
        WHERE inner_id >= 16384
    )
    SELECT coalesce(jsonb_object_agg(part, name), '{}')
    FROM (
        SELECT pg_enum.oid::text, enumlabel::text FROM types JOIN pg_enum ON enumtypid = id
        UNION ALL
        SELECT format('%s.%s', typrelid, attnum), format('%s %s', attname, format_type(atttypid, atttypmod))
        FROM types
        JOIN pg_type ON pg_type.oid = id AND typtype = 'c'
        JOIN pg_attribute ON attrelid = typrelid AND attnum > 0 AND NOT attisdropped
    ) AS named (part, name)
$$;

CREATE OR REPLACE FUNCTION tidewire.describe_table(wanted oid) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT jsonb_build_object(
        'table', tidewire.name_of_table(wanted),
        'columns', coalesce((
            SELECT jsonb_agg(jsonb_build_object(
                'number', attnum, 'name', attname, 'type', format_type(atttypid, atttypmod),
                'generated', attgenerated <> ''
            ) ORDER BY attnum)
            FROM pg_attribute
            WHERE attrelid = wanted AND attnum > 0 AND NOT attisdropped
        ), '[]'),
        'company', tidewire.operations_with_company(wanted),
        'key', coalesce((
            SELECT jsonb_agg(attname ORDER BY place)
            FROM pg_index
            CROSS JOIN unnest(indkey) WITH ORDINALITY AS part (number, place)
            JOIN pg_attribute ON attrelid = wanted AND attnum = number
            WHERE indrelid = wanted AND indisprimary AND place <= indnkeyatts
        ), '[]'),
        'types', tidewire.names_in_types(wanted),
        -- Asked only where there may be some: it costs as much as all the rest.
        'partitions', coalesce(CASE WHEN relkind = 'p' THEN (
            SELECT jsonb_object_agg(leaf::text, tidewire.name_of_table(leaf))
            FROM tidewire.leaves(wanted) AS leaf
        ) END, '{}')
    )
    FROM pg_class WHERE oid = wanted
$$;

CREATE OR REPLACE FUNCTION tidewire.difference(old jsonb, new jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = '' AS $$
    SELECT string_agg(said, '; ' ORDER BY place)
    FROM (
        SELECT coalesce(was.number, becomes.number)::integer AS place, CASE
            WHEN was.name IS NULL
                THEN format('column %s was added (%s)', quote_ident(becomes.name), becomes.type)
            WHEN becomes.name IS NULL THEN format('column %s was dropped', quote_ident(was.name))
            WHEN was.name <> becomes.name THEN
                format(
                    'column %s was renamed to %s', quote_ident(was.name), quote_ident(becomes.name)
                )
            WHEN was.type <> becomes.type THEN
                format(
                    'column %s is %s instead of %s', quote_ident(becomes.name), becomes.type, was.type
                )
            WHEN was.generated <> becomes.generated THEN
                format('column %s is %s', quote_ident(becomes.name), CASE WHEN becomes.generated
                    THEN 'generated' ELSE 'no longer generated' END)
        END AS said
        FROM jsonb_to_recordset(old -> 'columns')
            AS was (number smallint, name text, type text, generated boolean)
        FULL JOIN jsonb_to_recordset(new -> 'columns')
            AS becomes (number smallint, name text, type text, generated boolean)
            ON was.number = becomes.number
        UNION ALL
        SELECT 0, format('the table was renamed to %s', new ->> 'table')
        WHERE old ->> 'table' <> new ->> 'table'
        UNION ALL
        SELECT 32767, format('the primary key is %s instead of %s', new -> 'key', old -> 'key')
        WHERE old -> 'key' <> new -> 'key'
        UNION ALL
        -- A label that an enum has besides changes no row; a field of a composite type does.
        SELECT 32768, CASE
            WHEN was.value IS NULL AND strpos(becomes.key, '.') > 0
                THEN format('a type of its columns has the field %s besides', becomes.value)
            WHEN becomes.value IS NULL AND strpos(was.key, '.') > 0
                THEN format('a type of its columns has lost the field %s', was.value)
            WHEN was.value <> becomes.value AND strpos(was.key, '.') > 0
                THEN format('a type of its columns has the field %s instead of %s', becomes.value, was.value)
            WHEN was.value <> becomes.value
                THEN format('a type of its columns has the label %s instead of %s',
                    quote_literal(becomes.value), quote_literal(was.value))
        END
        FROM jsonb_each_text(old -> 'types') AS was
        FULL JOIN jsonb_each_text(new -> 'types') AS becomes ON was.key = becomes.key
        WHERE old ? 'types' AND new ? 'types'
    ) AS differences
    WHERE said IS NOT NULL
$$;

-- Whether a table's changes are captured, as far as its owner can see to that: its triggers are there and fire
-- whoever writes, or the publication has it. `DISABLE TRIGGER ALL` and `ENABLE TRIGGER ALL` leave triggers that
-- do not fire always, which those of ours do.
CREATE FUNCTION tidewire.is_armed(wanted oid) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT CASE WHEN (SELECT mode FROM tidewire.capture) = 'wal' THEN
        EXISTS (
            SELECT FROM pg_publication_rel JOIN pg_publication ON pg_publication.oid = prpubid
            WHERE pubname = 'tidewire_tables' AND prrelid = wanted
        )
    ELSE
        (SELECT count(*) = 2 FROM pg_trigger
         WHERE tgrelid = wanted AND tgname IN ('!tidewire_row', '!tidewire_truncate') AND tgenabled = 'A')
        AND CASE WHEN EXISTS (SELECT FROM pg_class WHERE oid = wanted AND relkind = 'p') THEN NOT EXISTS (
            SELECT FROM tidewire.leaves(wanted) AS leaf
            LEFT JOIN pg_trigger ON tgrelid = leaf AND tgname = '!tidewire_row'
            WHERE tgenabled IS DISTINCT FROM 'A'
        ) ELSE true END
    END
$$;

CREATE OR REPLACE FUNCTION tidewire.stale_watches() RETURNS SETOF oid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT table_id FROM tidewire.watches
    WHERE tidewire.describe_table(table_id) IS DISTINCT FROM shape OR NOT tidewire.is_armed(table_id)
       OR table_id IN (SELECT repairs.table_id FROM tidewire.repairs)
$$;

-- The partitions that a table has and its watch does not know of.
CREATE FUNCTION tidewire.added_partitions(wanted oid) RETURNS SETOF oid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT leaf FROM tidewire.watches CROSS JOIN tidewire.leaves(wanted) AS leaf
    WHERE table_id = wanted AND shape ? 'partitions' AND NOT shape -> 'partitions' ? leaf::text
$$;

-- Why rows of a table may be others than the log says, but for partitions that came. Null if nothing says so.
CREATE FUNCTION tidewire.reasons_to_compare(wanted oid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT string_agg(said, '; ' ORDER BY place, said)
    FROM (
        SELECT 1, format('%s is no partition of it any more', was.value)
        FROM tidewire.watches CROSS JOIN jsonb_each_text(shape -> 'partitions') AS was
        WHERE table_id = wanted AND NOT was.key::oid IN (SELECT tidewire.leaves(wanted))
        UNION ALL
        SELECT 2, CASE WHEN (SELECT mode FROM tidewire.capture) = 'wal'
            THEN 'it was taken out of the publication tidewire_tables'
            ELSE 'the triggers that capture its changes were disabled or dropped' END
        WHERE NOT tidewire.is_armed(wanted)
        UNION ALL
        SELECT DISTINCT 3, why FROM tidewire.repairs WHERE table_id = wanted
    ) AS reasons (place, said)
    WHERE EXISTS (SELECT FROM pg_class WHERE oid = wanted)
$$;

-- Why a table is to be compared with the log. Null if it is not. A partition that comes with rows is a reason;
-- one that is made empty is not.
CREATE FUNCTION tidewire.suspicion(wanted oid) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    why      text := tidewire.reasons_to_compare(wanted);
    part     oid;
    has_rows boolean;
BEGIN
    FOR part IN SELECT tidewire.added_partitions(wanted) LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', part::regclass) INTO has_rows;
        IF has_rows THEN
            why := concat_ws('; ', why, format('%s came as a partition', tidewire.name_of_table(part)));
        END IF;
    END LOOP;
    RETURN why;
END;
$$;

-- How a row of a table is written, as SQL over `t`.
CREATE FUNCTION tidewire.image_expression(wanted oid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT CASE tidewire.row_function(wanted)
        WHEN 'capture_row_with_json' THEN 'tidewire.image_with_json(row_to_json(t)::text)'
        ELSE 'to_jsonb(t)'
    END
$$;

DROP FUNCTION tidewire.differences(oid, pg_snapshot);

-- How a watched table differs from what the log says of it: changes that were not captured. Rows that
-- the log knows are compared by key, in the columns that both have; of the others, those are new that
-- a transaction wrote which the settled snapshot does not see, and those in partitions that are `fresh`.
-- With `only_fresh` nothing but those partitions is read, against what the log says since they cannot have
-- been there. In a snapshot of the caller's.
CREATE FUNCTION tidewire.differences(
    watched oid, settled pg_snapshot, fresh oid[] DEFAULT '{}', only_fresh boolean DEFAULT false
)
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
    source    text;
BEGIN
    SELECT * INTO STRICT watch FROM tidewire.watches WHERE table_id = watched;
    SELECT coalesce(max(c_offset), 0) INTO since FROM tidewire.log
    WHERE log.stream_id = watch.stream_id AND log.operation = 'TRUNCATE' AND control IS NULL;
    IF only_fresh THEN
        since := greatest(since, watch.counted_before);
    END IF;
    SELECT string_agg(format(
        'SELECT %s AS whole, t.xmin::text::bigint AS xid, t.tableoid = ANY ($8) AS is_fresh FROM %s AS t',
        tidewire.image_expression(watched), part::regclass
    ), ' UNION ALL ') INTO source
    FROM unnest(CASE WHEN only_fresh THEN fresh ELSE ARRAY[watched] END) AS part;
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
                SELECT tidewire.bytes_in_base64(whole - $4, $5) AS image,
                       is_fresh OR xid >= 3 AND NOT pg_visible_in_snapshot(
                           ($7 - (($7 - xid) & 4294967295))::text::xid8, $6) AS in_gap
                FROM (%s) AS source
            ) AS read
        )
        SELECT CASE WHEN logged.key IS NULL THEN 'INSERT' WHEN stored.key IS NULL THEN 'DELETE'
                    ELSE 'UPDATE' END,
               logged.image, stored.image
        FROM logged FULL JOIN stored
            ON logged.key = stored.key AND logged.copy = stored.copy
        WHERE CASE
            WHEN logged.key IS NULL THEN in_gap
            WHEN stored.key IS NULL THEN NOT $9
            WHEN logged.image = stored.image THEN false
            ELSE EXISTS (
                SELECT FROM jsonb_each(logged.image) AS was
                WHERE stored.image ? was.key AND stored.image -> was.key IS DISTINCT FROM was.value
            )
        END
    $query$, source)
    USING watch.stream_id, since, watch.key_columns, generated, bytes, settled, newest, fresh, only_fresh;
END;
$$;

-- Locks a watched table against its writers, until the transaction ends. False if there is no such table.
CREATE FUNCTION tidewire.lock_watched(wanted oid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = wanted) THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', wanted::regclass);
    RETURN true;
END;
$$;

-- Brings a watched table and the log together, and its watch up to date: who follows it is told why, and the
-- differences are staged. The caller has locked the table, and everything that was committed before is in the
-- log. Without `compare` those who follow are told to read the table again. Returns why there was something to
-- do, if there was, and how many rows differed.
CREATE FUNCTION tidewire.repair_watch(wanted oid, compare boolean, OUT why text, OUT staged bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    txid  CONSTANT bigint := txid_current();
    watch tidewire.watches;
    whole text;
    fresh oid[];
    part  oid;
BEGIN
    SELECT * INTO watch FROM tidewire.watches WHERE table_id = wanted FOR UPDATE;
    IF watch.table_id IS NULL THEN
        RETURN;
    END IF;
    whole := tidewire.reasons_to_compare(wanted);
    fresh := ARRAY(SELECT tidewire.added_partitions(wanted));
    why := whole;
    IF fresh <> '{}' AND (NOT compare OR EXISTS (
        SELECT FROM tidewire.differences(wanted, watch.settled, fresh, true)
    )) THEN
        why := concat_ws('; ', why, (
            SELECT string_agg(format('%s came as a partition', tidewire.name_of_table(leaf)), '; ')
            FROM unnest(fresh) AS leaf
        ));
    END IF;
    IF why IS NOT NULL THEN
        PERFORM tidewire.stage_control(watch.stream_id, 'schema', jsonb_build_object('what', why || CASE
            WHEN NOT compare THEN '. What is different could not be found out in time: read the table again'
            WHEN whole IS NULL THEN '. Its rows follow'
            ELSE '. What is different follows, but not in how many steps it came about, in which order or by '
                'whom; what the log did not know of is not told: to be sure, read the table again' END));
    END IF;
    IF why IS NOT NULL AND compare THEN
        INSERT INTO tidewire.staging (
            stream_id, table_name, operation, entity_code, entity_id, before_data, after_data,
            host_id, user_id, txid
        )
        SELECT watch.stream_id, watch.table_name, differs.operation, watch.entity_code,
               tidewire.row_key(image, watch.key_columns),
               CASE WHEN differs.operation <> 'INSERT' THEN differs.before_data END, differs.after_data,
               image ->> watch.host_column, image ->> watch.user_column, txid
        FROM tidewire.differences(wanted, watch.settled, fresh, whole IS NULL) AS differs
        CROSS JOIN LATERAL (SELECT coalesce(differs.after_data, differs.before_data)) AS now (image);
        GET DIAGNOSTICS staged = ROW_COUNT;
    END IF;
    IF why IS NOT NULL THEN
        UPDATE tidewire.watches SET repaired_at = clock_timestamp(), repaired_why = why, repaired_events = staged
        WHERE table_id = wanted;
    END IF;
    DELETE FROM tidewire.repairs WHERE table_id = wanted;
    -- What is left on a table that was a partition does nothing, and is taken away where nobody is in the way.
    FOR part IN SELECT was.key::oid FROM jsonb_each(watch.shape -> 'partitions') AS was
        WHERE EXISTS (SELECT FROM pg_class WHERE oid = was.key::oid AND NOT relispartition)
          AND NOT EXISTS (SELECT FROM tidewire.watches WHERE table_id = was.key::oid)
    LOOP
        BEGIN
            PERFORM tidewire.detach_triggers(part);
        EXCEPTION WHEN lock_not_available OR insufficient_privilege OR undefined_table THEN
            CONTINUE;
        END;
    END LOOP;
    PERFORM tidewire.refresh_watch(wanted), tidewire.attach_watch(wanted);
    UPDATE tidewire.watches SET settled = pg_current_snapshot() WHERE table_id = wanted;
    PERFORM tidewire.wake_sequencer();
END;
$$;

-- Notes, for the triggers of the partitions, that the whole table is being emptied: that is one event.
CREATE FUNCTION tidewire.begin_truncate() RETURNS trigger
LANGUAGE plpgsql SET search_path = '' AS $$
DECLARE
    setting CONSTANT text := 'tidewire.truncating_' || pg_trigger_depth();
BEGIN
    PERFORM set_config(
        setting, coalesce(current_setting(setting, true), '') || ' ' || TG_RELID || ' ', true
    );
    RETURN NULL;
END;
$$;

CREATE FUNCTION tidewire.end_truncate() RETURNS trigger
LANGUAGE plpgsql SET search_path = '' AS $$
DECLARE
    setting CONSTANT text := 'tidewire.truncating_' || pg_trigger_depth();
BEGIN
    PERFORM set_config(
        setting, replace(coalesce(current_setting(setting, true), ''), ' ' || TG_RELID || ' ', ''), true
    );
    RETURN NULL;
END;
$$;

-- A partition is about to be emptied by itself: its rows are gone one by one. Where they are many, those who
-- follow are told to read the table again, and what the log knows of is compared later.
CREATE FUNCTION tidewire.capture_part_truncate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' SET TimeZone = 'UTC'
SET DateStyle = 'ISO, MDY' SET IntervalStyle = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' AS $$
DECLARE
    -- So many are staged while their writer waits.
    rows_max CONSTANT bigint := 10000;
    txid     CONSTANT bigint := txid_current();
    root     CONSTANT oid    := TG_ARGV[0]::oid;
    watch    tidewire.watches;
    known    text[];
    rows     bigint;
    why      text;
BEGIN
    SELECT * INTO watch FROM tidewire.watches WHERE table_id = root;
    IF watch.table_id IS NULL OR NOT TG_RELID IN (SELECT tidewire.leaves(root)) OR strpos(
        coalesce(current_setting('tidewire.truncating_' || pg_trigger_depth(), true), ''), ' ' || root || ' '
    ) > 0 THEN
        RETURN NULL;
    END IF;
    EXECUTE format('SELECT count(*) FROM (SELECT FROM %s LIMIT %s) AS first_ones', TG_RELID::regclass, rows_max + 1)
        INTO rows;
    IF rows > rows_max THEN
        why := format('TRUNCATE emptied the partition %s of it', tidewire.name_of_table(TG_RELID));
        PERFORM tidewire.stage_control(
            watch.stream_id, 'schema', jsonb_build_object('what', why || ': read the table again')
        );
        INSERT INTO tidewire.repairs (table_id, why) VALUES (root, why);
        RETURN NULL;
    END IF;
    known := tidewire.trigger_arguments(root);
    EXECUTE format($insert$
        INSERT INTO tidewire.staging (
            stream_id, table_name, operation, entity_code, entity_id, before_data, host_id, user_id, txid
        )
        SELECT $1, $2, 'DELETE', $3, tidewire.row_key(image, $4), image,
               CASE WHEN $5 IS NULL THEN nullif(current_setting('tidewire.host_id', true), '')
                    ELSE image ->> $5 END,
               CASE WHEN $6 IS NULL THEN nullif(current_setting('tidewire.user_id', true), '')
                    ELSE image ->> $6 END,
               $7
        FROM (SELECT tidewire.bytes_in_base64(%s - $8, $9) AS image FROM %s AS t) AS gone
    $insert$, tidewire.image_expression(root), TG_RELID::regclass)
    USING watch.stream_id, watch.table_name, watch.entity_code, watch.key_columns, watch.host_column,
        watch.user_column, txid, coalesce(nullif(known[6], '')::text[], '{}'),
        coalesce(nullif(known[5], '')::text[], '{}');
    PERFORM tidewire.wake_sequencer();
    RETURN NULL;
END;
$$;

-- Makes a trigger of a table that fires whoever writes, or makes it anew.
CREATE FUNCTION tidewire.make_trigger(wanted oid, name text, fires text, calls text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    EXECUTE format(
        'CREATE OR REPLACE TRIGGER %I %s ON %s %s', name, fires, wanted::regclass, calls
    );
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', wanted::regclass, name);
END;
$$;

-- Whether a table has a trigger that fires whoever writes.
CREATE FUNCTION tidewire.has_trigger(wanted oid, name text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT EXISTS (
        SELECT FROM pg_trigger WHERE tgrelid = wanted AND tgname = name AND tgenabled = 'A'
    )
$$;

-- Sees to it that emptying a partition is noticed, whichever way changes are captured: neither triggers of the
-- table nor the write-ahead log tell of it.
CREATE FUNCTION tidewire.attach_truncate(wanted oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    part oid;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = wanted AND relkind = 'p') THEN
        RETURN;
    END IF;
    PERFORM tidewire.make_trigger(wanted, '!tidewire_truncating', 'BEFORE TRUNCATE',
        'FOR EACH STATEMENT EXECUTE FUNCTION tidewire.begin_truncate()');
    PERFORM tidewire.make_trigger(wanted, '!tidewire_truncated', 'AFTER TRUNCATE',
        'FOR EACH STATEMENT EXECUTE FUNCTION tidewire.end_truncate()');
    FOR part IN SELECT leaf FROM tidewire.leaves(wanted) AS leaf
        WHERE NOT tidewire.has_trigger(leaf, '!tidewire_part') ORDER BY leaf
    LOOP
        PERFORM tidewire.make_trigger(part, '!tidewire_part', 'BEFORE TRUNCATE', format(
            'FOR EACH STATEMENT EXECUTE FUNCTION tidewire.capture_part_truncate(%L)', wanted));
    END LOOP;
END;
$$;

-- Statements within statements. When a statement's row triggers fire, all of its rows are changed already. So
-- what a function that it calls, or a trigger for one of its first rows, has changed is staged before its own
-- rows are, though it happened after; and if both change a row, its changes would be told in the wrong order.
--
-- So each statement on a watched table notes that it begins, and that it ends. The setting `tidewire.statements`
-- has those that run, a line each, the innermost first:
--
--     L114 T1041  16412.INSERT  16412.UPDATE
--     L0 T1040  16412.UPDATE
--
-- how deep it is called (the length of the context: what is called from within has a longer one), the number that
-- its rows are ordered by, and the tables and operations that it began with. A statement with several of those (ON
-- CONFLICT, MERGE, WITH) is one. Where something runs within something else there is `T?` until a row is staged;
-- then numbers are drawn, the smaller one for the outer, and what was staged before has smaller ids. Elsewhere
-- there is a dash, and ids will do.
--
-- Every statement pays for this, so it is as light as can be: it has the writer's own rights.
CREATE OR REPLACE FUNCTION tidewire.begin_statement() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    stack   text := pg_catalog.current_setting('tidewire.statements', true);
    member  CONSTANT text := pg_catalog.concat(' ', coalesce(TG_ARGV[0], TG_RELID::text), '.', TG_OP, ' ');
    context text;
    level   text;
    top     text;
BEGIN
    GET DIAGNOSTICS context = PG_CONTEXT;
    -- The first line of it is this function's own.
    level := pg_catalog.concat(
        'L', pg_catalog.length(context) - pg_catalog.length(pg_catalog.split_part(context, E'\n', 1)), ' '
    );
    IF pg_catalog.starts_with(stack, level) THEN
        top := pg_catalog.split_part(stack, E'\n', 1);
        IF pg_catalog.strpos(top, member) = 0 THEN
            PERFORM pg_catalog.set_config('tidewire.statements', pg_catalog.overlay(
                stack, top || member, 1, pg_catalog.length(top)), true);
            RETURN NULL;
        END IF;
        -- One whose end was not told.
        stack := pg_catalog.ltrim(pg_catalog.substr(stack, pg_catalog.length(top) + 1), E'\n');
    END IF;
    PERFORM pg_catalog.set_config('tidewire.statements', CASE
        WHEN stack <> '' THEN pg_catalog.concat(
            level, 'T? ', member, E'\n', pg_catalog.replace(stack, ' - ', ' T? '))
        ELSE pg_catalog.concat(level, '- ', member)
    END, true);
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION tidewire.end_statement() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    stack  CONSTANT text := coalesce(pg_catalog.current_setting('tidewire.statements', true), '');
    member CONSTANT text := pg_catalog.concat(' ', coalesce(TG_ARGV[0], TG_RELID::text), '.', TG_OP, ' ');
    line   text;
    kept   text := '';
    ended  boolean := false;
BEGIN
    FOREACH line IN ARRAY pg_catalog.string_to_array(stack, E'\n') LOOP
        IF NOT ended AND pg_catalog.strpos(line, member) > 0 THEN
            ended := true;
            line := pg_catalog.replace(line, member, '');
            CONTINUE WHEN pg_catalog.strpos(line, '.') = 0;
        END IF;
        kept := pg_catalog.concat(kept, CASE WHEN kept <> '' THEN E'\n' END, line);
    END LOOP;
    PERFORM pg_catalog.set_config('tidewire.statements', kept, true);
    RETURN NULL;
END;
$$;

-- The number by which the rows of the statement that changes a table are ordered, the innermost of those. Draws
-- the numbers that are missing. Null if there is no such statement, or it is alone.
CREATE FUNCTION tidewire.statement_of(relation text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    lines text[] := string_to_array(current_setting('tidewire.statements', true), E'\n');
    line  text;
BEGIN
    FOR place IN REVERSE cardinality(lines)..1 LOOP
        lines[place] := replace(lines[place], ' T? ', format(' T%s ', CASE
            WHEN strpos(lines[place], ' T? ') > 0 THEN nextval('tidewire.staging_id_seq')
        END));
    END LOOP;
    PERFORM set_config('tidewire.statements', array_to_string(lines, E'\n'), true);
    FOREACH line IN ARRAY lines LOOP
        IF strpos(line, ' ' || relation || '.') > 0 THEN
            RETURN substring(line FROM ' T([0-9]+) ')::bigint;
        END IF;
    END LOOP;
    RETURN NULL;
END;
$$;

DO $do$
DECLARE
    step    CONSTANT text := $old$nullif(current_setting('tidewire.statement_' || pg_trigger_depth(), true), '')::bigint$old$;
    name    text;
    patched text;
BEGIN
    FOREACH name IN ARRAY ARRAY['capture_row', 'capture_styled_row', 'capture_row_with_json'] LOOP
        patched := pg_get_functiondef(format('tidewire.%I', name)::regproc);
        IF strpos(patched, step) = 0 THEN
            RAISE EXCEPTION '%() is not written as was thought: %', name, patched;
        END IF;
        EXECUTE replace(patched, step, $new$CASE
            WHEN strpos(current_setting('tidewire.statements', true), ' T') > 0
                THEN tidewire.statement_of(TG_ARGV[7])
        END$new$);
    END LOOP;
END;
$do$;

-- Makes the changes of a watched table's rows known by triggers. The name of the one for rows sorts before most
-- others', those of foreign keys included: so a change is staged before what another trigger does about it. They
-- fire in replicas of rows too, as the write-ahead log would tell of those.
CREATE OR REPLACE FUNCTION tidewire.attach_triggers(wanted oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    arguments text;
    part      oid;
BEGIN
    SELECT string_agg(quote_literal(argument), ', ' ORDER BY place) INTO STRICT arguments
    FROM unnest(tidewire.trigger_arguments(wanted)) WITH ORDINALITY AS given (argument, place);
    PERFORM tidewire.make_trigger(wanted, '!tidewire_row', 'AFTER INSERT OR UPDATE OR DELETE', format(
        'FOR EACH ROW EXECUTE FUNCTION tidewire.%I(%s)', tidewire.row_function(wanted), arguments));
    PERFORM tidewire.make_trigger(wanted, '!tidewire_truncate', 'AFTER TRUNCATE', format(
        'FOR EACH STATEMENT EXECUTE FUNCTION tidewire.capture_truncate(%s)', arguments));
    FOR part IN SELECT wanted UNION ALL SELECT tidewire.leaves(wanted) LOOP
        IF part <> wanted AND NOT tidewire.has_trigger(part, '!tidewire_row') THEN
            EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER "!tidewire_row"', part::regclass);
        END IF;
        CONTINUE WHEN part <> wanted AND tidewire.has_trigger(part, '!tidewire_begin')
            AND tidewire.has_trigger(part, '!tidewire_end');
        PERFORM tidewire.make_trigger(part, '!tidewire_begin', 'BEFORE INSERT OR UPDATE OR DELETE', format(
            'FOR EACH STATEMENT EXECUTE FUNCTION tidewire.begin_statement(%L)', wanted));
        PERFORM tidewire.make_trigger(part, '!tidewire_end', 'AFTER INSERT OR UPDATE OR DELETE', format(
            'FOR EACH STATEMENT EXECUTE FUNCTION tidewire.end_statement(%L)', wanted));
    END LOOP;
    PERFORM tidewire.attach_truncate(wanted);
END;
$$;

-- The end of it.
CREATE OR REPLACE FUNCTION tidewire.detach_triggers(wanted oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT tgrelid::regclass AS relation, tgname FROM pg_trigger
        WHERE tgrelid IN (SELECT wanted UNION ALL SELECT tidewire.leaves(wanted))
          AND tgparentid = 0 AND tgname IN (
              '!tidewire_row', '!tidewire_truncate', '!tidewire_begin', '!tidewire_end',
              '!tidewire_truncating', '!tidewire_truncated', '!tidewire_part'
          )
        ORDER BY tgrelid, tgname
    LOOP
        EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', found.tgname, found.relation);
    END LOOP;
END;
$$;

DO $do$
DECLARE
    step    CONSTANT text := E'    -- The reader looks at the watches again from here on.\n';
    patched text := pg_get_functiondef('tidewire.attach_wal(oid)'::regprocedure);
BEGIN
    IF strpos(patched, step) = 0 THEN
        RAISE EXCEPTION 'attach_wal() is not written as was thought: %', patched;
    END IF;
    EXECUTE replace(patched, step, E'    PERFORM tidewire.attach_truncate(watched);\n' || step);
END;
$do$;

-- The tables that inherit from one, other than as its partitions: their rows are seen when it is read, and are
-- not captured with it.
CREATE FUNCTION tidewire.heirs(wanted oid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT string_agg(tidewire.name_of_table(inhrelid), ', ' ORDER BY tidewire.name_of_table(inhrelid))
    FROM pg_inherits JOIN pg_class ON pg_class.oid = inhparent
    WHERE inhparent = wanted AND relkind = 'r'
$$;

-- Whoever watches a table is told of its heirs; and what was captured is known from the beginning.
DO $do$
DECLARE
    step    CONSTANT text := E'    PERFORM tidewire.attach_watch(wanted);\n';
    patched text := pg_get_functiondef(
        'tidewire.watch_table(oid, text, text[], text, text, text)'::regprocedure
    );
BEGIN
    IF strpos(patched, step) = 0 THEN
        RAISE EXCEPTION 'watch_table() is not written as was thought: %', patched;
    END IF;
    EXECUTE replace(patched, step, step || $patch$    UPDATE tidewire.watches SET settled = coalesce(settled, pg_current_snapshot())
    WHERE table_id = wanted;
    IF tidewire.heirs(wanted) IS NOT NULL THEN
        RAISE WARNING 'rows of the tables that inherit from % are not captured with it: %',
            named, tidewire.heirs(wanted) USING HINT = 'Watch those tables too.';
    END IF;
$patch$);
END;
$do$;

CREATE OR REPLACE FUNCTION tidewire.switch_capture(
    wanted text, why text DEFAULT 'it was asked for', by_person boolean DEFAULT true
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF wanted = 'wal' AND (SELECT mode FROM tidewire.capture) <> 'wal' THEN
        PERFORM pg_advisory_xact_lock(x'746964650000000a'::bigint);
    END IF;
    PERFORM tidewire.switch_source(wanted, why, by_person);
    UPDATE tidewire.capture SET decided = true WHERE NOT decided;
END;
$$;

-- The owner's alone, until granted: also the functions of triggers, which have the owner's rights.
REVOKE EXECUTE ON FUNCTION
    tidewire.leaves(oid), tidewire.names_in_types(oid), tidewire.is_armed(oid), tidewire.added_partitions(oid),
    tidewire.reasons_to_compare(oid), tidewire.suspicion(oid), tidewire.image_expression(oid),
    tidewire.differences(oid, pg_snapshot, oid[], boolean), tidewire.lock_watched(oid),
    tidewire.repair_watch(oid, boolean), tidewire.begin_truncate(), tidewire.end_truncate(),
    tidewire.capture_part_truncate(), tidewire.make_trigger(oid, text, text, text),
    tidewire.has_trigger(oid, text), tidewire.attach_truncate(oid), tidewire.statement_of(text),
    tidewire.heirs(oid)
FROM PUBLIC;

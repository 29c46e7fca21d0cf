-- Capture: which tables are watched, and what the changes of their rows need on their way to the
-- log. (Long because it is one step of the schema.)
--
-- Triggers on a watched table write each change to `staging`, in the writer's own transaction, and
-- take no lock that another writer could wait for. The sequencer, on one elected node, gives what is
-- committed its offset. Everything administrative is state here, so that nodes need not talk.
--
-- The functions run with the rights of whoever migrated (SECURITY DEFINER): a writer needs no right
-- on this schema for its changes to be captured. To call them is the owner's right alone until it is
-- granted to others:
--
--     GRANT USAGE ON SCHEMA tidewire TO app;
--     GRANT EXECUTE ON FUNCTION tidewire.publish(text, jsonb), tidewire.set_actor(text, text) TO app;
--
-- Reading a row for its event can run functions that the table's owner wrote (a cast of a column's
-- type to json) with those rights: watch tables of owners who are trusted with this schema.

-- Two more control events: a table's columns changed, and a place by which everything is in the log
-- that was committed before. (NOT VALID: what is there obeyed the narrower rule.)
ALTER TABLE tidewire.log DROP CONSTRAINT control_check;
ALTER TABLE tidewire.log ADD CONSTRAINT control_check CHECK (
    control IN ('create', 'close', 'delete', 'expire', 'subscription', 'schema', 'mark')
) NOT VALID;

-- What is staged may be a control event, such as the making of a stream; what failed waits for its
-- next attempt. A transaction's rows are events in the order of `statement`, or `id` where there is
-- none, and then of `id`: see begin_statement().
ALTER TABLE tidewire.staging ADD COLUMN control text;
ALTER TABLE tidewire.staging ADD COLUMN retry_at timestamptz;
ALTER TABLE tidewire.staging ADD COLUMN statement bigint;
ALTER TABLE tidewire.staging ADD CONSTRAINT control_check CHECK (
    control IN ('create', 'delete', 'schema', 'mark')
);

-- Rows that failed, by when they are tried again. The sequencer looks for all others above a floor.
CREATE INDEX staging_retry ON tidewire.staging (retry_at) WHERE retry_at IS NOT NULL;

-- Every row dies young, so the table is vacuumed after a number of them rather than a share, without
-- pauses, and without the lock that giving back the empty end would take.
ALTER TABLE tidewire.staging SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000,
    vacuum_truncate = false, toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 20000, toast.autovacuum_vacuum_cost_delay = 0,
    toast.vacuum_truncate = false
);

-- Rows that were given up, as they were staged.
CREATE TABLE tidewire.dead_letters (
    LIKE tidewire.staging INCLUDING DEFAULTS EXCLUDING IDENTITY,
    died_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (id)
);

-- How changes come into the log, and who brings them. `generation` rises with every leader, and
-- whoever appends captured events does so only while it is the one that made it rise last.
CREATE TABLE tidewire.capture (
    only_row   boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    mode       text        NOT NULL CHECK (mode IN ('outbox', 'wal')),
    reason     text        NOT NULL,
    leader     text,
    generation bigint      NOT NULL DEFAULT 0,
    -- The transaction that is partly in the log, because it is larger than a batch. Nothing else that
    -- is captured comes before the rest of it.
    chunk_txid bigint,
    elected_at timestamptz
);
INSERT INTO tidewire.capture (mode, reason) VALUES ('outbox', 'no node has decided yet');

-- Whether the sequencer sleeps: 1 awake, 2 asleep. A sequence, because its value can be read without
-- a lock or a snapshot and changes at once, whatever transaction looks.
CREATE SEQUENCE tidewire.sequencer_sleep MINVALUE 1 MAXVALUE 2;
SELECT setval('tidewire.sequencer_sleep', 1);

-- The watched tables. A watch follows its table by oid, so that it survives a rename, and keeps the
-- name that its stream and its events have had from the start.
CREATE TABLE tidewire.watches (
    table_id    oid         PRIMARY KEY,
    table_name  text        COLLATE "C" NOT NULL UNIQUE,
    stream_id   text        COLLATE "C" NOT NULL UNIQUE,
    key_columns text[]      NOT NULL,
    -- Whether the key was asked for; otherwise it follows the table's primary key.
    key_given   boolean     NOT NULL,
    entity_code text,
    host_column text,
    user_column text,
    -- The table as subscribers were last told of it: see describe_table().
    shape       jsonb       NOT NULL,
    events      bigint      NOT NULL DEFAULT 0,
    last_offset bigint,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- NOTIFY costs a writer dearly (a lock that all who commit share), so it is for a sequencer that
-- sleeps.
CREATE FUNCTION tidewire.wake_sequencer() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF pg_sequence_last_value('tidewire.sequencer_sleep'::regclass) = 2 THEN
        PERFORM pg_notify('tidewire_staging', '');
    END IF;
END;
$$;

-- The name by which a table's stream and events are called: that of the schema before a dot, unless
-- it is public. A part with a dot, a quote or a slash in it is put in quotes.
CREATE FUNCTION tidewire.name_of_table(wanted oid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT string_agg(
        CASE WHEN part ~ '[."/]' OR part = '' THEN '"' || replace(part, '"', '""') || '"'
             ELSE part END,
        '.' ORDER BY place
    )
    FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    CROSS JOIN LATERAL (
        VALUES (1, nspname::text), (2, relname::text)
    ) AS parts (place, part)
    WHERE pg_class.oid = wanted AND (place = 2 OR nspname <> 'public')
$$;

-- The operations on a table that fire row triggers which may change rows: those of users, and those
-- by which foreign keys cascade. Null if there are none.
CREATE FUNCTION tidewire.operations_with_company(wanted oid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT string_agg(DISTINCT operation, ' OR ')
    FROM pg_trigger
    JOIN pg_proc ON pg_proc.oid = tgfoid
    JOIN (VALUES (4, 'INSERT'), (8, 'DELETE'), (16, 'UPDATE')) AS bits (bit, operation)
        ON tgtype & bit <> 0
    WHERE tgrelid = wanted AND tgtype & 1 <> 0 AND tgname <> '!tidewire_row'
      AND (NOT tgisinternal OR proname ~ '^RI_FKey_(cascade|setnull|setdefault)_')
$$;

-- What a table's changes look like: its name, its columns by number, its primary key, and what fires
-- triggers of others. Null if there is no such table.
CREATE FUNCTION tidewire.describe_table(wanted oid) RETURNS jsonb
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
        ), '[]')
    )
    FROM pg_class WHERE oid = wanted
$$;

-- The arguments of a watched table's row trigger, numbered from 0 as TG_ARGV is: stream, table, entity
-- code, host column, user column, columns of bytes, generated columns, the table's oid, the first
-- column number that this does not know of, whether there is one key column and nothing of the rest
-- (which is quicker), and the key's columns.
CREATE FUNCTION tidewire.trigger_arguments(wanted oid) RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT (format('[0:%s]=', cardinality(arguments) - 1) || arguments::text)::text[]
    FROM (
        SELECT ARRAY[
            stream_id, table_name, coalesce(entity_code, ''), coalesce(host_column, ''),
            coalesce(user_column, ''), bytes, generated, wanted::text, (relnatts + 1)::text,
            CASE WHEN cardinality(key_columns) = 1 AND host_column IS NULL AND user_column IS NULL
                AND bytes = '' AND generated = '' THEN 'simple' ELSE '' END
        ] || key_columns AS arguments
        FROM tidewire.watches
        JOIN pg_class ON pg_class.oid = wanted
        CROSS JOIN LATERAL (
            SELECT coalesce((array_agg(attname::text ORDER BY attnum) FILTER (
                       WHERE attgenerated = '' AND 'bytea'::regtype IN (atttypid, typbasetype)
                   ))::text, ''),
                   coalesce((array_agg(attname::text ORDER BY attnum)
                       FILTER (WHERE attgenerated <> ''))::text, '')
            FROM pg_attribute
            JOIN pg_type ON pg_type.oid = atttypid
            WHERE attrelid = wanted AND attnum > 0 AND NOT attisdropped
        ) AS special (bytes, generated)
        WHERE table_id = wanted
    ) AS found
$$;

-- Whether the JSON of a table's rows is the same whatever settings the writer has. Types that are not
-- known to be so, such as times with a zone, are taken not to be.
CREATE FUNCTION tidewire.is_free_of_settings(wanted oid) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT coalesce(bool_and(coalesce(inner_type.typtype, element.typtype) = 'e' OR element.oid IN (
        'boolean'::regtype, 'smallint'::regtype, 'integer'::regtype, 'bigint'::regtype,
        'numeric'::regtype, 'text'::regtype, 'varchar'::regtype, 'bpchar'::regtype,
        'name'::regtype, 'uuid'::regtype, 'jsonb'::regtype, 'date'::regtype, 'timestamp'::regtype,
        'time'::regtype, 'inet'::regtype, 'cidr'::regtype
    )), true)
    FROM pg_attribute
    JOIN pg_type AS declared ON declared.oid = atttypid
    LEFT JOIN pg_type AS inner_type
        ON declared.typcategory = 'A' AND inner_type.oid = declared.typelem
    JOIN pg_type AS element ON element.oid = coalesce(inner_type.oid, declared.oid)
    WHERE attrelid = wanted AND attnum > 0 AND NOT attisdropped
$$;

-- The name of the function that captures a table's rows: one that costs more where the rows have a type
-- that needs it.
CREATE FUNCTION tidewire.row_function(wanted oid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT CASE
        WHEN EXISTS (
            SELECT FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
            WHERE attrelid = wanted AND attnum > 0 AND NOT attisdropped
              AND 'json'::regtype IN (pg_type.oid, typbasetype, typelem)
        ) THEN 'capture_row_with_json'
        WHEN tidewire.is_free_of_settings(wanted) THEN 'capture_row'
        ELSE 'capture_styled_row'
    END
$$;

-- Stages the change of one row.
--
-- The transaction's number is drawn before the row's id: the sequencer's floor rests on it. Nothing
-- here may fail for a reason that is not the writer's own, nor wait for another transaction.
CREATE FUNCTION tidewire.capture_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    txid   CONSTANT bigint := txid_current();
    before jsonb;
    after  jsonb;
    entity text;
    host   text;
    actor  text;
    known  text[];
    image  jsonb;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        before := to_jsonb(OLD);
        after := to_jsonb(NEW);
    ELSIF TG_OP = 'INSERT' THEN
        after := to_jsonb(NEW);
    ELSE
        before := to_jsonb(OLD);
    END IF;
    -- A column that was added since the trigger was made makes the answer other than null: until the
    -- trigger is made again, what it should have been told is looked up.
    IF TG_ARGV[9] = 'simple'
        AND has_column_privilege(TG_ARGV[7]::oid, TG_ARGV[8]::smallint, 'SELECT') IS NULL THEN
        entity := coalesce(after, before) ->> TG_ARGV[10];
    END IF;
    IF entity IS NOT NULL THEN
        host := nullif(current_setting('tidewire.host_id', true), '');
        actor := nullif(current_setting('tidewire.user_id', true), '');
    ELSE
        known := TG_ARGV;
        IF has_column_privilege(known[7]::oid, known[8]::smallint, 'SELECT') IS NOT NULL THEN
            known := coalesce(tidewire.trigger_arguments(known[7]::oid), known);
        END IF;
        IF known[5] <> '' THEN
            before := tidewire.bytes_in_base64(before, known[5]::text[]);
            after := tidewire.bytes_in_base64(after, known[5]::text[]);
        END IF;
        IF known[6] <> '' THEN
            before := before - known[6]::text[];
            after := after - known[6]::text[];
        END IF;
        image := coalesce(after, before);
        entity := CASE array_upper(known, 1)
            WHEN 9 THEN image::text
            WHEN 10 THEN image ->> known[10]
            WHEN 11 THEN jsonb_build_array(image -> known[10], image -> known[11])::text
            ELSE (
                SELECT jsonb_agg(image -> name ORDER BY place)::text
                FROM unnest(known[10:]) WITH ORDINALITY AS key (name, place)
            )
        END;
        -- A key that is null may be one whose column has another name by now.
        IF entity IS NULL AND NOT image ? known[10] THEN
            entity := image ->> tidewire.renamed_column(known[7]::oid, known[10]);
        END IF;
        host := CASE WHEN known[3] = '' THEN nullif(current_setting('tidewire.host_id', true), '')
                     ELSE image ->> known[3] END;
        actor := CASE WHEN known[4] = '' THEN nullif(current_setting('tidewire.user_id', true), '')
                      ELSE image ->> known[4] END;
    END IF;
    INSERT INTO tidewire.staging (
        stream_id, table_name, operation, entity_code, entity_id, before_data, after_data,
        host_id, user_id, txid, statement
    ) VALUES (
        TG_ARGV[0], TG_ARGV[1], TG_OP, nullif(TG_ARGV[2], ''), entity, before, after,
        host, actor, txid,
        nullif(current_setting('tidewire.statement_' || pg_trigger_depth(), true), '')::bigint
    );
    IF pg_sequence_last_value('tidewire.sequencer_sleep'::regclass) = 2 THEN
        PERFORM pg_notify('tidewire_staging', '');
    END IF;
    RETURN NULL;
END;
$$;

-- Bytes in the one form that all events have them in.
CREATE FUNCTION tidewire.bytes_in_base64(image jsonb, names text[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT CASE WHEN image IS NULL THEN NULL ELSE image || coalesce((
        SELECT jsonb_object_agg(
            name, translate(encode(decode(substr(image ->> name, 3), 'hex'), 'base64'), E'\n', '')
        )
        FROM unnest(names) AS name
        WHERE jsonb_typeof(image -> name) = 'string'
    ), '{}') END
$$;

-- What a column of a watched table is called by now, if the watch has not been told yet.
CREATE FUNCTION tidewire.renamed_column(wanted oid, old_name text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT attname
    FROM tidewire.watches
    CROSS JOIN jsonb_to_recordset(shape -> 'columns') AS told (name text, number smallint)
    JOIN pg_attribute ON attrelid = wanted AND attnum = told.number
    WHERE table_id = wanted AND told.name = old_name
$$;

-- A row with columns of type json. Those may hold the character U+0000, which jsonb cannot: it becomes
-- U+FFFD, because a writer must not fail for being watched. (The backslashes before it are pairs, or it
-- is not that character.)
CREATE FUNCTION tidewire.image_with_json(image text) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = '' AS $$
    SELECT CASE WHEN strpos(image, '\u0000') = 0 THEN image ELSE
        regexp_replace(image, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g') END::jsonb
$$;

-- The same for tables whose JSON depends on settings, and for those with columns of type json. Setting
-- them costs half as much again as all the rest, so that others are spared it.
DO $$
DECLARE
    plain  CONSTANT text := pg_get_functiondef('tidewire.capture_row'::regproc);
    styled CONSTANT text := replace(plain, 'search_path TO ''''', $settings$search_path TO ''
        SET TimeZone = 'UTC'
        SET DateStyle = 'ISO, MDY'
        SET IntervalStyle = 'postgres'
        SET extra_float_digits = 1
        SET bytea_output = 'hex'$settings$);
BEGIN
    IF styled = plain THEN
        RAISE EXCEPTION 'capture_row() is not written as was thought: %', plain;
    END IF;
    EXECUTE replace(styled, 'capture_row()', 'capture_styled_row()');
    EXECUTE regexp_replace(
        replace(styled, 'capture_row()', 'capture_row_with_json()'), 'to_jsonb\((NEW|OLD)\)',
        'tidewire.image_with_json(row_to_json(\1)::text)', 'g'
    );
END;
$$;

-- Stages that all rows are gone.
CREATE FUNCTION tidewire.capture_truncate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    txid CONSTANT bigint := txid_current();
BEGIN
    INSERT INTO tidewire.staging (
        stream_id, table_name, operation, entity_code, host_id, user_id, txid
    ) VALUES (
        TG_ARGV[0], TG_ARGV[1], 'TRUNCATE', nullif(TG_ARGV[2], ''),
        CASE WHEN TG_ARGV[3] = '' THEN nullif(current_setting('tidewire.host_id', true), '') END,
        CASE WHEN TG_ARGV[4] = '' THEN nullif(current_setting('tidewire.user_id', true), '') END,
        txid
    );
    PERFORM tidewire.wake_sequencer();
    RETURN NULL;
END;
$$;

-- Stages an event about a stream rather than in it.
CREATE FUNCTION tidewire.stage_control(stream text, kind text, document jsonb DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    txid CONSTANT bigint := txid_current();
BEGIN
    INSERT INTO tidewire.staging (stream_id, control, payload, content_type, txid)
    VALUES (
        stream, kind, convert_to(document::text, 'UTF8'),
        CASE WHEN document IS NOT NULL THEN 'application/json' END, txid
    );
    PERFORM tidewire.wake_sequencer();
    RETURN txid;
END;
$$;

-- A barrier: when the log shows the control event 'mark' with the number this returns, everything is
-- in the log that was committed before it, and its own transaction.
CREATE FUNCTION tidewire.mark() RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = '' AS $$
    SELECT tidewire.stage_control('', 'mark')
$$;

-- Says for the rest of the transaction who acts, and for which tenant.
CREATE FUNCTION tidewire.set_actor(user_id text, host_id text DEFAULT NULL) RETURNS void
LANGUAGE sql SET search_path = '' AS $$
    SELECT set_config('tidewire.user_id', coalesce(user_id, ''), true),
           set_config('tidewire.host_id', coalesce(host_id, ''), true);
    SELECT
$$;

-- Publishes a document in the caller's transaction: it is in the log if, and only if, that commits.
CREATE FUNCTION tidewire.publish(stream text, payload jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    txid              CONSTANT bigint  := txid_current();
    name_bytes_max    CONSTANT integer := 1024;
    payload_bytes_max CONSTANT integer := 16777216;
    document          CONSTANT bytea   := convert_to(payload::text, 'UTF8');
BEGIN
    IF stream IS NULL OR payload IS NULL THEN
        RAISE EXCEPTION 'publish needs a stream and a payload, and one of them is null' USING
            ERRCODE = 'null_value_not_allowed',
            HINT = 'For a JSON null, publish ''null''::jsonb.';
    END IF;
    IF stream = 'table' OR starts_with(stream, 'table/') THEN
        RAISE EXCEPTION 'streams under table/ hold the changes of watched tables' USING
            ERRCODE = 'invalid_parameter_value',
            HINT = 'Write to the table itself, or choose a name that does not start with table/.';
    END IF;
    IF octet_length(stream) > name_bytes_max THEN
        RAISE EXCEPTION 'the stream''s name has % bytes; it may have %',
            octet_length(stream), name_bytes_max USING
            ERRCODE = 'invalid_parameter_value', HINT = 'Use a shorter name.';
    END IF;
    IF stream ~ '(^|/)(\.|\.\.)?(/|$)' OR stream ~ '[\x01-\x1f\x7f-\x9f]'
        OR stream = '__ds' OR starts_with(stream, '__ds/') THEN
        RAISE EXCEPTION '% is not a name for a stream', quote_literal(stream) USING
            ERRCODE = 'invalid_parameter_value',
            HINT = 'A name is one or more segments joined by single slashes, such as doc/123; names '
                'under __ds are reserved.';
    END IF;
    IF octet_length(document) > payload_bytes_max THEN
        RAISE EXCEPTION 'the payload has % bytes; it may have %',
            octet_length(document), payload_bytes_max USING
            ERRCODE = 'program_limit_exceeded',
            HINT = 'Publish it in parts, or publish a reference to it.';
    END IF;
    INSERT INTO tidewire.staging (stream_id, payload, content_type, host_id, user_id, txid)
    VALUES (
        stream, document, 'application/json', nullif(current_setting('tidewire.host_id', true), ''),
        nullif(current_setting('tidewire.user_id', true), ''), txid
    );
    PERFORM tidewire.wake_sequencer();
END;
$$;

-- When a statement's row triggers fire, all of its rows are changed already. So what another trigger
-- changes for its first row is staged before the outer statement's second row is, though it happened
-- after; and if both change that row, its changes would be told in the wrong order. Where a table has
-- triggers that may change rows, its statements therefore draw a number from the ids as they begin,
-- which all of their rows bear. How deep in triggers a statement runs tells it from those within.
CREATE FUNCTION tidewire.begin_statement() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    PERFORM txid_current();
    PERFORM set_config(
        'tidewire.statement_' || pg_trigger_depth(), nextval('tidewire.staging_id_seq')::text, true
    );
    RETURN NULL;
END;
$$;

CREATE FUNCTION tidewire.end_statement() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    PERFORM set_config('tidewire.statement_' || pg_trigger_depth(), '', true);
    RETURN NULL;
END;
$$;

-- Makes the changes of a watched table's rows known: here by triggers. Their name sorts before all
-- others', those of foreign keys included: so a change is staged before what another trigger does
-- about it. They fire in replicas of rows too, as the write-ahead log would tell of those.
CREATE FUNCTION tidewire.attach_watch(wanted oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    relation  CONSTANT text := wanted::regclass::text;
    company   CONSTANT text := tidewire.operations_with_company(wanted);
    arguments text;
BEGIN
    SELECT string_agg(quote_literal(argument), ', ' ORDER BY place) INTO STRICT arguments
    FROM unnest(tidewire.trigger_arguments(wanted)) WITH ORDINALITY AS given (argument, place);
    EXECUTE format(
        'CREATE OR REPLACE TRIGGER "!tidewire_row" AFTER INSERT OR UPDATE OR DELETE ON %s
         FOR EACH ROW EXECUTE FUNCTION tidewire.%I(%s)',
        relation,
        tidewire.row_function(wanted),
        arguments
    );
    EXECUTE format(
        'CREATE OR REPLACE TRIGGER "!tidewire_truncate" AFTER TRUNCATE ON %s
         FOR EACH STATEMENT EXECUTE FUNCTION tidewire.capture_truncate(%s)',
        relation, arguments
    );
    IF company IS NOT NULL THEN
        EXECUTE format(
            'CREATE OR REPLACE TRIGGER "!tidewire_begin" BEFORE %s ON %s
             FOR EACH STATEMENT EXECUTE FUNCTION tidewire.begin_statement()',
            company, relation
        );
        EXECUTE format(
            'CREATE OR REPLACE TRIGGER "!tidewire_end" AFTER %s ON %s
             FOR EACH STATEMENT EXECUTE FUNCTION tidewire.end_statement()',
            company, relation
        );
    END IF;
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER "!tidewire_row"', relation);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER "!tidewire_truncate"', relation);
END;
$$;

-- The end of it.
CREATE FUNCTION tidewire.detach_watch(wanted oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    EXECUTE format('DROP TRIGGER IF EXISTS "!tidewire_row" ON %s', wanted::regclass);
    EXECUTE format('DROP TRIGGER IF EXISTS "!tidewire_truncate" ON %s', wanted::regclass);
    EXECUTE format('DROP TRIGGER IF EXISTS "!tidewire_begin" ON %s', wanted::regclass);
    EXECUTE format('DROP TRIGGER IF EXISTS "!tidewire_end" ON %s', wanted::regclass);
END;
$$;

-- The table that a text names: as the caller's search_path has it, else in public.
CREATE FUNCTION tidewire.find_table(named text) RETURNS oid
LANGUAGE sql STABLE STRICT AS $$
    SELECT coalesce(
        pg_catalog.to_regclass(named), pg_catalog.to_regclass(pg_catalog.concat('public.', named))
    )::pg_catalog.oid
$$;

-- Watches a table, or changes how it is watched.
CREATE FUNCTION tidewire.watch_table(
    wanted oid, named text, keys text[], entity text, host text, actor text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    relation pg_class;
    shape    jsonb;
    name     text;
    missing  text;
    is_new   boolean;
BEGIN
    SELECT * INTO relation FROM pg_class WHERE oid = wanted;
    IF relation.oid IS NULL THEN
        RAISE EXCEPTION 'there is no table %', coalesce(quote_literal(named), 'without a name') USING
            ERRCODE = 'undefined_table',
            HINT = 'Name it as in SQL: orders, sales.orders, "Odd Name". It must exist, and the role '
                'that runs this must have the right to use its schema.';
    END IF;
    IF relation.relkind NOT IN ('r', 'p') OR relation.relpersistence = 't' THEN
        RAISE EXCEPTION '% is not a table whose changes could be captured', named USING
            ERRCODE = 'wrong_object_type',
            HINT = 'Views, foreign, temporary and materialized tables have no changes of their own: '
                'watch the tables they are made from.';
    END IF;
    IF relation.relispartition THEN
        RAISE EXCEPTION '% is a partition', named USING
            ERRCODE = 'wrong_object_type',
            HINT = format('Watch the table it is a part of: %s.', (
                SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = wanted LIMIT 1
            ));
    END IF;
    IF relation.relnamespace IN (
        'pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'tidewire'::regnamespace
    ) THEN
        RAISE EXCEPTION '% belongs to the system', named USING
            ERRCODE = 'wrong_object_type', HINT = 'Watch tables of your own.';
    END IF;
    -- Waits for the transactions that have written to it; those that come later are captured.
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', wanted::regclass);
    shape := tidewire.describe_table(wanted);
    SELECT column_name INTO missing
    FROM unnest(keys || ARRAY[host, actor]) AS column_name
    WHERE column_name IS NOT NULL AND NOT EXISTS (
        SELECT FROM jsonb_to_recordset(shape -> 'columns') AS had (name text, generated boolean)
        WHERE had.name = column_name AND NOT had.generated
    )
    LIMIT 1;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'the table % has no column % that could be captured',
            named, quote_ident(missing) USING
            ERRCODE = 'undefined_column',
            HINT = format('It has %s. Generated columns are left out of events.', (
                SELECT string_agg(quote_ident(had.name), ', ')
                FROM jsonb_to_recordset(shape -> 'columns') AS had (name text, generated boolean)
                WHERE NOT had.generated
            ));
    END IF;
    INSERT INTO tidewire.watches (
        table_id, table_name, stream_id, key_columns, key_given, entity_code, host_column,
        user_column, shape
    ) VALUES (
        wanted, shape ->> 'table', 'table/' || (shape ->> 'table'),
        coalesce(
            nullif(keys, '{}'), ARRAY(SELECT jsonb_array_elements_text(shape -> 'key'))
        ),
        coalesce(keys <> '{}', false), nullif(entity, ''), nullif(host, ''), nullif(actor, ''), shape
    )
    ON CONFLICT (table_id) DO UPDATE SET
        key_columns = excluded.key_columns, key_given = excluded.key_given,
        entity_code = excluded.entity_code, host_column = excluded.host_column,
        user_column = excluded.user_column
    RETURNING table_name, xmax = 0 INTO name, is_new;
    IF is_new THEN
        PERFORM tidewire.stage_control('table/' || name, 'create');
    END IF;
    PERFORM tidewire.attach_watch(wanted);
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'another table is watched under the name %', shape ->> 'table' USING
        ERRCODE = 'unique_violation',
        HINT = 'It had that name when its watch began, and its stream still has. To free the name, '
            'unwatch that table: see tidewire.watches.';
END;
$$;

CREATE FUNCTION tidewire.watch(
    "table" text, key_columns text[] DEFAULT NULL, entity text DEFAULT NULL,
    host_column text DEFAULT NULL, user_column text DEFAULT NULL
) RETURNS void
LANGUAGE sql AS $$
    SELECT tidewire.watch_table(
        tidewire.find_table("table"), "table", key_columns, entity, host_column, user_column
    )
$$;

-- Stops watching a table, by its name or by the one its watch has, and ends its stream.
CREATE FUNCTION tidewire.unwatch_table(wanted oid, named text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    found_id oid;
    stream   text;
BEGIN
    SELECT table_id INTO found_id FROM tidewire.watches
    WHERE table_id = wanted OR table_name = named
    ORDER BY table_id = wanted DESC NULLS LAST
    LIMIT 1;
    IF found_id IS NULL THEN
        RETURN false;
    END IF;
    IF EXISTS (SELECT FROM pg_class WHERE oid = found_id) THEN
        EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', found_id::regclass);
        PERFORM tidewire.detach_watch(found_id);
    END IF;
    DELETE FROM tidewire.watches WHERE table_id = found_id RETURNING stream_id INTO stream;
    IF stream IS NULL THEN
        RETURN false;
    END IF;
    PERFORM tidewire.stage_control(stream, 'delete');
    RETURN true;
END;
$$;

CREATE FUNCTION tidewire.unwatch("table" text) RETURNS boolean
LANGUAGE sql AS $$
    SELECT tidewire.unwatch_table(tidewire.find_table("table"), "table")
$$;

-- The watched tables that are not as subscribers were told, or are gone.
CREATE FUNCTION tidewire.stale_watches() RETURNS SETOF oid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT table_id FROM tidewire.watches
    WHERE tidewire.describe_table(table_id) IS DISTINCT FROM shape
$$;

-- How a table differs from what was told of it, in words.
CREATE FUNCTION tidewire.difference(old jsonb, new jsonb) RETURNS text
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
    ) AS differences
    WHERE said IS NOT NULL
$$;

-- Brings a watch up to date with its table and tells subscribers; ends one whose table is gone.
CREATE FUNCTION tidewire.refresh_watch(wanted oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    watch   tidewire.watches;
    becomes jsonb;
    what    text;
BEGIN
    IF EXISTS (SELECT FROM pg_class WHERE oid = wanted) THEN
        EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', wanted::regclass);
    END IF;
    SELECT * INTO watch FROM tidewire.watches WHERE table_id = wanted FOR UPDATE;
    becomes := tidewire.describe_table(wanted);
    IF watch.table_id IS NULL OR watch.shape = becomes THEN
        RETURN;
    END IF;
    IF becomes IS NULL THEN
        DELETE FROM tidewire.watches WHERE table_id = wanted;
        PERFORM tidewire.stage_control(watch.stream_id, 'delete');
        RETURN;
    END IF;
    UPDATE tidewire.watches SET
        shape = becomes,
        key_columns = CASE
            WHEN watch.key_given THEN ARRAY(
                SELECT tidewire.renamed_column(wanted, name)
                FROM unnest(watch.key_columns) WITH ORDINALITY AS key (name, place)
                WHERE tidewire.renamed_column(wanted, name) IS NOT NULL
                ORDER BY place
            )
            ELSE ARRAY(SELECT jsonb_array_elements_text(becomes -> 'key'))
        END,
        host_column = tidewire.renamed_column(wanted, watch.host_column),
        user_column = tidewire.renamed_column(wanted, watch.user_column)
    WHERE table_id = wanted;
    what := tidewire.difference(watch.shape, becomes);
    IF what IS NOT NULL THEN
        PERFORM tidewire.stage_control(
            watch.stream_id, 'schema', jsonb_build_object('what', what)
        );
    END IF;
    PERFORM tidewire.attach_watch(wanted);
END;
$$;

-- The owner's alone, until granted.
REVOKE EXECUTE ON FUNCTION
    tidewire.wake_sequencer(), tidewire.name_of_table(oid), tidewire.describe_table(oid),
    tidewire.trigger_arguments(oid), tidewire.is_free_of_settings(oid), tidewire.capture_row(),
    tidewire.capture_styled_row(), tidewire.capture_row_with_json(), tidewire.row_function(oid),
    tidewire.capture_truncate(), tidewire.renamed_column(oid, text),
    tidewire.stage_control(text, text, jsonb), tidewire.mark(), tidewire.publish(text, jsonb),
    tidewire.attach_watch(oid), tidewire.detach_watch(oid), tidewire.stale_watches(),
    tidewire.begin_statement(), tidewire.end_statement(), tidewire.operations_with_company(oid),
    tidewire.watch_table(oid, text, text[], text, text, text),
    tidewire.watch(text, text[], text, text, text),
    tidewire.unwatch_table(oid, text), tidewire.unwatch(text), tidewire.refresh_watch(oid)
FROM PUBLIC;

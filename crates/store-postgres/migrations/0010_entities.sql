-- Entities: who subscribes to which, and what became of those that are no rows of a watched table.
--
-- Delivery does not read the subscriptions: each node knows those of its own connections. They are
-- kept for people and programs who ask who looks at what, and so that SQL can subscribe a connection.
-- `rxdb_subscription` has the columns that other tools expect under this name.

CREATE TABLE tidewire.rxdb_subscription (
    connection_id text        COLLATE "C" NOT NULL,
    entity_code   text        COLLATE "C" NOT NULL,
    entity_id     text        COLLATE "C" NOT NULL,
    user_id       text        COLLATE "C" NOT NULL DEFAULT '',
    host_id       text,
    -- The node that serves the connection. Null: made by SQL, and not taken up by a node yet.
    node_id       text        COLLATE "C",
    subscribed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (connection_id, entity_code, entity_id),
    -- What is longer does not fit into an index.
    CONSTRAINT connection_id_length CHECK (octet_length(connection_id) BETWEEN 1 AND 255),
    CONSTRAINT entity_code_length CHECK (octet_length(entity_code) BETWEEN 1 AND 255),
    CONSTRAINT entity_id_length CHECK (octet_length(entity_id) BETWEEN 1 AND 1024),
    CONSTRAINT user_id_length CHECK (octet_length(user_id) <= 1024)
);

CREATE INDEX rxdb_subscription_by_entity ON tidewire.rxdb_subscription (entity_code, entity_id);
CREATE INDEX rxdb_subscription_by_user ON tidewire.rxdb_subscription (user_id, entity_code);
-- For the sweeper: the rows of nodes that live no more, and old ones of no node.
CREATE INDEX rxdb_subscription_by_node ON tidewire.rxdb_subscription (node_id, subscribed_at);

-- What became of an entity after some offset. Only what can be subscribed to is in it: the key of a
-- table without one is the whole row, which may be too long for an index. It is built before columns
-- are added, because until then the log can be read.
CREATE INDEX log_entity ON tidewire.log (entity_code, entity_id, c_offset)
    WHERE octet_length(entity_code) <= 255 AND octet_length(coalesce(entity_id, '')) <= 1024;

-- The functions that capture rows note the key that a row had before, where its table is watched as an
-- entity. Without key columns the key is the whole row, which is not told twice.
DO $do$
DECLARE
    name    text;
    step    text[];
    patched text;
BEGIN
    FOREACH name IN ARRAY ARRAY['capture_row', 'capture_styled_row', 'capture_row_with_json'] LOOP
        patched := pg_get_functiondef(format('tidewire.%I', name)::regproc);
        FOREACH step SLICE 1 IN ARRAY ARRAY[
            [E'    image  jsonb;\n', E'    image  jsonb;\n    was    text;\n'],
            [E'    INSERT INTO tidewire.staging (\n', $patch$    IF TG_OP = 'UPDATE' AND TG_ARGV[2] <> '' THEN
        was := CASE
            WHEN known IS NULL THEN before ->> TG_ARGV[10]
            WHEN array_upper(known, 1) = 10 THEN before ->> known[10]
            WHEN array_upper(known, 1) > 10 THEN tidewire.row_key(before, known[10:])
        END;
        was := CASE WHEN octet_length(was) <= 1024 THEN nullif(was, entity) END;
    END IF;
    INSERT INTO tidewire.staging (
$patch$],
            ['host_id, user_id, txid, statement', 'host_id, user_id, txid, entity_was, statement'],
            [E'host, actor, txid,\n', E'host, actor, txid, was,\n']
        ] LOOP
            IF strpos(patched, step[1]) = 0 THEN
                RAISE EXCEPTION '%() is not written as was thought: %', name, patched;
            END IF;
            patched := replace(patched, step[1], step[2]);
        END LOOP;
        EXECUTE patched;
    END LOOP;
END;
$do$;

-- Its stream is for that alone: nothing else is published there.
DO $do$
DECLARE
    step    CONSTANT text := E'    IF octet_length(stream) > name_bytes_max THEN\n';
    patched text := pg_get_functiondef('tidewire.publish(text, jsonb)'::regprocedure);
BEGIN
    IF strpos(patched, step) = 0 THEN
        RAISE EXCEPTION 'publish() is not written as was thought: %', patched;
    END IF;
    EXECUTE replace(patched, step, $patch$    IF stream = 'entity' OR starts_with(stream, 'entity/') THEN
        RAISE EXCEPTION 'streams under entity/ hold what tidewire.invalidate told' USING
            ERRCODE = 'invalid_parameter_value',
            HINT = 'Call tidewire.invalidate, or choose a name that does not start with entity/.';
    END IF;
$patch$ || step);
END;
$do$;

-- Who follows a table is told when it comes to be watched in another way: what is seen of it depends on
-- its key, and on the columns that say whose a row is.
DO $do$
DECLARE
    step    text[];
    patched text := pg_get_functiondef(
        'tidewire.watch_table(oid, text, text[], text, text, text)'::regprocedure
    );
BEGIN
    FOREACH step SLICE 1 IN ARRAY ARRAY[
        [E'    is_new   boolean;\n', E'    is_new   boolean;\n    was      tidewire.watches;\n    what     text;\n'],
        [E'    INSERT INTO tidewire.watches (\n', $patch$    SELECT * INTO was FROM tidewire.watches WHERE table_id = wanted;
    INSERT INTO tidewire.watches (
$patch$],
        [E'    END IF;\n    PERFORM tidewire.attach_watch(wanted);\n', $patch$    END IF;
    SELECT string_agg(said, '; ' ORDER BY place) INTO what
    FROM tidewire.watches AS becomes, LATERAL (VALUES
        (1, 'its key is another', becomes.key_columns IS DISTINCT FROM was.key_columns),
        (2, 'its tenants are in another column', becomes.host_column IS DISTINCT FROM was.host_column),
        (3, 'its users are in another column', becomes.user_column IS DISTINCT FROM was.user_column),
        (4, 'its entity is another', becomes.entity_code IS DISTINCT FROM was.entity_code)
    ) AS difference (place, said, is_so)
    WHERE becomes.table_id = wanted AND is_so;
    IF NOT is_new AND what IS NOT NULL THEN
        PERFORM tidewire.stage_control(
            'table/' || name, 'schema',
            jsonb_build_object('what', 'the table is watched in another way: ' || what)
        );
    END IF;
    PERFORM tidewire.attach_watch(wanted);
$patch$]
    ] LOOP
        IF strpos(patched, step[1]) = 0 THEN
            RAISE EXCEPTION 'watch_table() is not written as was thought: %', patched;
        END IF;
        patched := replace(patched, step[1], step[2]);
    END LOOP;
    EXECUTE patched;
END;
$do$;

-- Tells, in the caller's transaction, those who subscribe to an entity what became of it: they are
-- told if, and only if, that commits.
CREATE FUNCTION tidewire.invalidate(code text, id text, action text DEFAULT 'UPDATE') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    txid           CONSTANT bigint  := txid_current();
    stream         CONSTANT text    := 'entity/' || code;
    code_bytes_max CONSTANT integer := 255;
    id_bytes_max   CONSTANT integer := 1024;
BEGIN
    IF code IS NULL OR id IS NULL OR action IS NULL THEN
        RAISE EXCEPTION 'invalidate needs an entity''s code, its id and an action, and one of them is null'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF action NOT IN ('CREATE', 'UPDATE', 'DELETE') THEN
        RAISE EXCEPTION '% is not what can become of an entity', quote_literal(action) USING
            ERRCODE = 'invalid_parameter_value',
            HINT = 'It is ''CREATE'', ''UPDATE'' or ''DELETE''.';
    END IF;
    IF octet_length(code) > code_bytes_max OR stream ~ '(^|/)(\.|\.\.)?(/|$)'
        OR stream ~ '[\x01-\x1f\x7f-\x9f]' THEN
        RAISE EXCEPTION '% is not an entity''s code', quote_literal(left(code, code_bytes_max)) USING
            ERRCODE = 'invalid_parameter_value',
            HINT = format('A code, such as project, is part of the name of a stream and has 1 to %s '
                'bytes.', code_bytes_max);
    END IF;
    IF octet_length(id) NOT BETWEEN 1 AND id_bytes_max THEN
        RAISE EXCEPTION 'the entity''s id has % bytes; it may have 1 to %',
            octet_length(id), id_bytes_max USING
            ERRCODE = 'invalid_parameter_value', HINT = 'Use a shorter id.';
    END IF;
    INSERT INTO tidewire.staging (
        stream_id, payload, content_type, entity_code, entity_id, entity_action, host_id, user_id,
        txid
    ) VALUES (
        stream,
        convert_to(format(
            '{"entityCode":%s,"entityId":%s,"action":"%s"}', to_json(code), to_json(id), action
        ), 'UTF8'),
        'application/json', code, id, action,
        nullif(current_setting('tidewire.host_id', true), ''),
        nullif(current_setting('tidewire.user_id', true), ''), txid
    );
    PERFORM tidewire.wake_sequencer();
END;
$$;

-- The connections whose subscriptions a transaction has changed by SQL. Its notes go when it commits.
CREATE TABLE tidewire.entities_touched (
    txid          bigint NOT NULL,
    connection_id text   COLLATE "C" NOT NULL,
    PRIMARY KEY (txid, connection_id)
);

-- Notes them once each, however many rows and statements there are.
CREATE FUNCTION tidewire.note_entities() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    txid CONSTANT bigint := txid_current();
BEGIN
    IF TG_OP IN ('DELETE', 'UPDATE') THEN
        INSERT INTO tidewire.entities_touched
        SELECT DISTINCT txid, connection_id FROM were ON CONFLICT DO NOTHING;
    END IF;
    IF TG_OP IN ('INSERT', 'UPDATE') THEN
        INSERT INTO tidewire.entities_touched
        SELECT DISTINCT txid, connection_id FROM are ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END;
$$;

-- What a node does itself is no news: it says so. Triggers that see all rows of a statement are for
-- one kind of statement each.
CREATE TRIGGER entities_added AFTER INSERT ON tidewire.rxdb_subscription
REFERENCING NEW TABLE AS are FOR EACH STATEMENT
WHEN (coalesce(current_setting('tidewire.by_node', true), '') = '')
EXECUTE FUNCTION tidewire.note_entities();

CREATE TRIGGER entities_updated AFTER UPDATE ON tidewire.rxdb_subscription
REFERENCING OLD TABLE AS were NEW TABLE AS are FOR EACH STATEMENT
WHEN (coalesce(current_setting('tidewire.by_node', true), '') = '')
EXECUTE FUNCTION tidewire.note_entities();

CREATE TRIGGER entities_removed AFTER DELETE ON tidewire.rxdb_subscription
REFERENCING OLD TABLE AS were FOR EACH STATEMENT
WHEN (coalesce(current_setting('tidewire.by_node', true), '') = '')
EXECUTE FUNCTION tidewire.note_entities();

-- Tells all nodes of a connection that was noted.
CREATE FUNCTION tidewire.tell_of_entities() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO tidewire.control (kind, body)
    VALUES ('entities_changed', json_build_object('connection_id', NEW.connection_id));
    DELETE FROM tidewire.entities_touched
    WHERE txid = NEW.txid AND connection_id = NEW.connection_id;
    PERFORM pg_notify('tidewire_control', '');
    RETURN NULL;
END;
$$;

-- Deferred, so that the message is a young one however long its transaction was open.
CREATE CONSTRAINT TRIGGER entities_changed AFTER INSERT ON tidewire.entities_touched
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tidewire.tell_of_entities();

-- TRUNCATE has no rows to fire for; it tells of every connection.
CREATE FUNCTION tidewire.tell_of_all_entities() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO tidewire.control (kind, body)
    SELECT DISTINCT ON (connection_id)
           'entities_changed', json_build_object('connection_id', connection_id)
    FROM tidewire.rxdb_subscription;
    PERFORM pg_notify('tidewire_control', '');
    RETURN NULL;
END;
$$;

CREATE TRIGGER entities_truncated BEFORE TRUNCATE ON tidewire.rxdb_subscription
FOR EACH STATEMENT EXECUTE FUNCTION tidewire.tell_of_all_entities();

-- The owner's alone, until granted: also the functions of triggers, those of keys among them. They have
-- the owner's rights, and who may execute them can have a table of their own call them.
REVOKE EXECUTE ON FUNCTION
    tidewire.invalidate(text, text, text), tidewire.note_entities(), tidewire.tell_of_entities(),
    tidewire.tell_of_all_entities(), tidewire.tell_of_key(), tidewire.tell_of_all_keys()
FROM PUBLIC;

-- What became of an entity, where no row's operation says so, and the id it had before, where it has
-- another. These come last because nobody else can use the tables from here to the end: staging, which
-- every transaction that changes a watched table writes to, last of all.
ALTER TABLE tidewire.log_archive ADD COLUMN entity_action text, ADD COLUMN entity_was text;
ALTER TABLE tidewire.dead_letters ADD COLUMN entity_action text, ADD COLUMN entity_was text;
ALTER TABLE tidewire.log ADD COLUMN entity_action text, ADD COLUMN entity_was text;
CREATE INDEX log_entity_was ON tidewire.log (entity_code, entity_was, c_offset)
    WHERE octet_length(entity_code) <= 255 AND octet_length(entity_was) <= 1024;
ALTER TABLE tidewire.staging
    ADD COLUMN entity_action text, ADD COLUMN entity_was text,
    ADD CONSTRAINT entity_action_check CHECK (entity_action IN ('CREATE', 'UPDATE', 'DELETE'));

-- The outbox of captured changes: what waits, what is in the log, and what was given up, as one.
--
-- `processed` and `published_at` follow from where a row is, so that they are true in every mode of
-- capture, and asking for what is not processed does not look at the log. The id is the one that a row
-- had while it waited; `c_offset` is the `eventId` of the event that came of it.
--
-- Times are shown, and taken, in the session's TimeZone, as a `timestamp` compares with now().

CREATE INDEX IF NOT EXISTS log_compat_id ON tidewire.log (outbox_id) WHERE outbox_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS log_compat_table ON tidewire.log (table_name, outbox_id)
    WHERE operation IS NOT NULL AND outbox_id IS NOT NULL;

-- The conditions stand outside of the branches, because only then are these read in the order of an
-- index where one is asked for.
CREATE OR REPLACE VIEW "compat_public".outbox AS
SELECT id, created_at, table_name, operation, after_data, before_data, processed, error_message,
       published_at, c_offset, host_id, user_id
FROM (
    SELECT outbox_id AS id, created_at::timestamp AS created_at, table_name, operation, after_data,
           before_data, true AS processed, NULL::text AS error_message,
           coalesce(published_at, created_at)::timestamp AS published_at, c_offset, host_id, user_id
    FROM tidewire.log
    UNION ALL
    SELECT id, created_at::timestamp, table_name, operation, after_data, before_data, false,
           error_message, NULL, NULL, host_id, user_id
    FROM tidewire.staging
    UNION ALL
    SELECT id, created_at::timestamp, table_name, operation, after_data, before_data, false,
           error_message, NULL, NULL, host_id, user_id
    FROM tidewire.dead_letters
) AS everywhere
WHERE operation IS NOT NULL AND id IS NOT NULL;

-- Publishes the change of a row in the writer's own transaction, as an event of that table's stream:
-- as if the row had been captured there. The stream is made if there is none.
CREATE OR REPLACE FUNCTION tidewire.compat_outbox_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    -- Drawn before the row's id: the sequencer's floor rests on it.
    txid   CONSTANT bigint := txid_current();
    stream CONSTANT text   := 'table/' || NEW.table_name;
    image  CONSTANT jsonb  := coalesce(NEW.after_data, NEW.before_data);
    made   CONSTANT timestamptz := coalesce(NEW.created_at::timestamptz, clock_timestamp());
    watch  tidewire.watches;
    entity text;
    was    text;
BEGIN
    IF NEW.table_name IS NULL OR NEW.operation IS NULL THEN
        RAISE EXCEPTION 'an event of the outbox has a table_name and an operation, and one is null'
            USING ERRCODE = 'not_null_violation';
    END IF;
    IF NEW.operation NOT IN ('INSERT', 'UPDATE', 'DELETE') THEN
        RAISE EXCEPTION '% is not an operation', quote_literal(NEW.operation) USING
            ERRCODE = 'check_violation', CONSTRAINT = 'operation_check',
            HINT = 'It is ''INSERT'', ''UPDATE'' or ''DELETE''.';
    END IF;
    IF (NEW.operation = 'DELETE') <> (NEW.after_data IS NULL) THEN
        RAISE EXCEPTION 'after_data is the row after an INSERT or an UPDATE, and null after a DELETE' USING
            ERRCODE = 'check_violation', CONSTRAINT = 'after_data_check';
    END IF;
    IF (NEW.operation = 'INSERT') <> (NEW.before_data IS NULL) THEN
        RAISE EXCEPTION 'before_data is the row before an UPDATE or a DELETE, and null before an INSERT' USING
            ERRCODE = 'check_violation', CONSTRAINT = 'before_data_check';
    END IF;
    IF NEW.processed OR NEW.published_at IS NOT NULL THEN
        RAISE EXCEPTION 'an event is processed when it is in the log, and not before' USING
            ERRCODE = 'check_violation',
            HINT = 'Leave processed and published_at out: they follow by themselves.';
    END IF;
    IF stream ~ '(^|/)(\.|\.\.)?(/|$)' OR stream ~ '[\x01-\x1f\x7f-\x9f]' THEN
        RAISE EXCEPTION '% is not a name for a table', quote_literal(NEW.table_name) USING
            ERRCODE = 'invalid_parameter_value',
            HINT = 'Name it as its stream is called: orders is the stream table/orders.';
    END IF;
    SELECT * INTO watch FROM tidewire.watches WHERE table_name = NEW.table_name;
    IF NOT EXISTS (SELECT FROM tidewire.streams WHERE stream_id = stream AND NOT soft_deleted) THEN
        PERFORM tidewire.stage_control(stream, 'create');
    END IF;
    NEW.host_id := CASE WHEN watch.host_column IS NULL
        THEN coalesce(NEW.host_id, nullif(current_setting('tidewire.host_id', true), ''))
        ELSE image ->> watch.host_column END;
    NEW.user_id := CASE WHEN watch.user_column IS NULL
        THEN coalesce(NEW.user_id, nullif(current_setting('tidewire.user_id', true), ''))
        ELSE image ->> watch.user_column END;
    IF watch.table_id IS NOT NULL THEN
        entity := tidewire.row_key(image, watch.key_columns);
        IF NEW.operation = 'UPDATE' AND watch.entity_code IS NOT NULL
            AND cardinality(watch.key_columns) > 0 THEN
            was := nullif(tidewire.row_key(NEW.before_data, watch.key_columns), entity);
        END IF;
    END IF;
    INSERT INTO tidewire.staging (
        stream_id, table_name, operation, entity_code, entity_id, entity_was, before_data,
        after_data, host_id, user_id, txid, created_at
    ) VALUES (
        stream, NEW.table_name, NEW.operation, watch.entity_code, entity,
        CASE WHEN octet_length(was) <= 1024 THEN was END, NEW.before_data,
        NEW.after_data, NEW.host_id, NEW.user_id, txid, made
    )
    RETURNING id INTO NEW.id;
    PERFORM tidewire.wake_sequencer();
    NEW.created_at := made::timestamp;
    NEW.processed := false;
    NEW.error_message := NULL;
    NEW.c_offset := NULL;
    RETURN NEW;
END;
$$;

-- Whether an event is published is for the log to say: that it is marked as such changes nothing, and
-- what it says itself never changes.
CREATE OR REPLACE FUNCTION tidewire.compat_outbox_update() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    NEW.processed := OLD.processed;
    NEW.published_at := OLD.published_at;
    NEW.error_message := OLD.error_message;
    IF NEW IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'event % is not changed: what was published stays as it is', OLD.id USING
            ERRCODE = 'feature_not_supported', HINT = 'Insert another event.';
    END IF;
    RETURN OLD;
END;
$$;

-- What waits or was given up can be withdrawn.
CREATE OR REPLACE FUNCTION tidewire.compat_outbox_delete() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF OLD.processed THEN
        RAISE EXCEPTION 'event % is in the log, and removed from there by retention alone', OLD.id
            USING ERRCODE = 'feature_not_supported',
            HINT = 'How long captured rows are kept is [retention] in the configuration; 30 days '
                'unless it says otherwise.';
    END IF;
    DELETE FROM tidewire.staging WHERE id = OLD.id;
    IF NOT FOUND THEN
        DELETE FROM tidewire.dead_letters WHERE id = OLD.id;
    END IF;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN OLD;
END;
$$;

CREATE OR REPLACE TRIGGER tidewire_insert INSTEAD OF INSERT ON "compat_public".outbox
FOR EACH ROW EXECUTE FUNCTION tidewire.compat_outbox_insert();
CREATE OR REPLACE TRIGGER tidewire_update INSTEAD OF UPDATE ON "compat_public".outbox
FOR EACH ROW EXECUTE FUNCTION tidewire.compat_outbox_update();
CREATE OR REPLACE TRIGGER tidewire_delete INSTEAD OF DELETE ON "compat_public".outbox
FOR EACH ROW EXECUTE FUNCTION tidewire.compat_outbox_delete();

COMMENT ON VIEW "compat_public".outbox IS
    'Made by tidewire migrate --compat: changes of rows, published and waiting';

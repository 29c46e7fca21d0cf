-- The table that an application writes to when it has changed an entity. A row there tells those who
-- subscribe to the entity, as tidewire.invalidate does.
--
-- Whether that is done is not written down: it is so when the event has left the staging table for the
-- log. So the view says it, each state in a branch of its own, and asking for what is pending looks at
-- what is staged and not at all that ever was. No transaction of Tidewire's ever waits for whoever holds
-- a row of this table.

CREATE TABLE IF NOT EXISTS tidewire.compat_logging (
    id                uuid         PRIMARY KEY,
    entity_code       varchar(100) NOT NULL,
    entity_id         uuid         NOT NULL,
    action            integer      NOT NULL,
    -- What others say of it. It counts until the event is in the log.
    sync_status       varchar(20),
    sync_processed_ts timestamptz,
    created_ts        timestamptz  NOT NULL,
    -- The event's number in the staging table; none where nothing is to be told.
    staged_id         bigint
);

CREATE INDEX IF NOT EXISTS compat_logging_staged ON tidewire.compat_logging (staged_id);
CREATE INDEX IF NOT EXISTS compat_logging_age ON tidewire.compat_logging (created_ts);
CREATE INDEX IF NOT EXISTS compat_logging_said ON tidewire.compat_logging (sync_status, created_ts)
    WHERE staged_id IS NULL AND sync_status IS NOT NULL;

-- For the time at which an event came into the log.
CREATE INDEX IF NOT EXISTS log_compat_id ON tidewire.log (outbox_id) WHERE outbox_id IS NOT NULL;

CREATE OR REPLACE VIEW "compat_app".logging AS
SELECT said.id, said.entity_code, said.entity_id, said.action,
       coalesce(said.sync_status, 'pending')::varchar(20) AS sync_status, said.sync_processed_ts,
       said.created_ts
FROM tidewire.compat_logging AS said
JOIN tidewire.staging ON staging.id = said.staged_id
UNION ALL
SELECT said.id, said.entity_code, said.entity_id, said.action,
       coalesce(said.sync_status, 'failed')::varchar(20), said.sync_processed_ts, said.created_ts
FROM tidewire.compat_logging AS said
JOIN tidewire.dead_letters ON dead_letters.id = said.staged_id
UNION ALL
SELECT said.id, said.entity_code, said.entity_id, said.action, 'sent'::varchar(20),
       coalesce(
           (SELECT coalesce(log.published_at, log.created_at) FROM tidewire.log
            WHERE log.outbox_id = said.staged_id),
           said.sync_processed_ts, said.created_ts
       ),
       said.created_ts
FROM tidewire.compat_logging AS said
WHERE said.staged_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM tidewire.staging WHERE staging.id = said.staged_id)
  AND NOT EXISTS (SELECT FROM tidewire.dead_letters WHERE dead_letters.id = said.staged_id)
UNION ALL
SELECT said.id, said.entity_code, said.entity_id, said.action, 'ignored'::varchar(20),
       said.sync_processed_ts, said.created_ts
FROM tidewire.compat_logging AS said
WHERE said.staged_id IS NULL AND said.sync_status IS NULL
UNION ALL
SELECT said.id, said.entity_code, said.entity_id, said.action, said.sync_status,
       said.sync_processed_ts, said.created_ts
FROM tidewire.compat_logging AS said
WHERE said.staged_id IS NULL AND said.sync_status IS NOT NULL;

-- Tells of a change, and returns the event's number in the staging table.
CREATE OR REPLACE FUNCTION tidewire.compat_invalidate(code text, id uuid, action integer)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    PERFORM tidewire.invalidate(code, id::text, CASE action
        WHEN 3 THEN 'DELETE' WHEN 4 THEN 'CREATE' ELSE 'UPDATE' END);
    RETURN currval('tidewire.staging_id_seq');
END;
$$;

-- A row that is said to be dealt with already is kept, and nobody is told.
CREATE OR REPLACE FUNCTION tidewire.compat_logging_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    said   text;
    staged bigint;
BEGIN
    NEW.id := coalesce(NEW.id, gen_random_uuid());
    NEW.created_ts := coalesce(NEW.created_ts, clock_timestamp());
    IF coalesce(NEW.sync_status, 'pending') <> 'pending' THEN
        said := NEW.sync_status;
    ELSIF NEW.action <> 0 THEN
        staged := tidewire.compat_invalidate(NEW.entity_code, NEW.entity_id, NEW.action);
        NEW.sync_status := 'pending';
    ELSE
        NEW.sync_status := 'ignored';
    END IF;
    INSERT INTO tidewire.compat_logging (
        id, entity_code, entity_id, action, sync_status, sync_processed_ts, created_ts, staged_id
    ) VALUES (
        NEW.id, NEW.entity_code, NEW.entity_id, NEW.action, said, NEW.sync_processed_ts,
        NEW.created_ts, staged
    );
    RETURN NEW;
END;
$$;

-- What is in the log stays sent; to make it pending again tells of it once more. Before that, whoever
-- claims a row first has it: another who saw it in the same state changes nothing.
CREATE OR REPLACE FUNCTION tidewire.compat_logging_update() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF (NEW.id, NEW.entity_code, NEW.entity_id, NEW.action, NEW.created_ts)
        IS DISTINCT FROM (OLD.id, OLD.entity_code, OLD.entity_id, OLD.action, OLD.created_ts) THEN
        RAISE EXCEPTION 'what was logged of % % is not changed afterwards',
            OLD.entity_code, OLD.entity_id USING
            ERRCODE = 'feature_not_supported',
            HINT = 'Insert another row; sync_status and sync_processed_ts can be updated.';
    END IF;
    IF NEW.sync_status = 'pending' AND OLD.sync_status IN ('sent', 'failed') AND OLD.action <> 0 THEN
        UPDATE tidewire.compat_logging SET
            sync_status = NULL, sync_processed_ts = NULL,
            staged_id = tidewire.compat_invalidate(entity_code, entity_id, action)
        WHERE id = OLD.id;
        NEW.sync_processed_ts := NULL;
    ELSIF OLD.sync_status = 'sent' THEN
        RETURN OLD;
    ELSE
        UPDATE tidewire.compat_logging SET
            sync_status = NEW.sync_status, sync_processed_ts = NEW.sync_processed_ts
        WHERE id = OLD.id AND coalesce(sync_status, OLD.sync_status) = OLD.sync_status;
    END IF;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END;
$$;

-- What was staged is told all the same.
CREATE OR REPLACE FUNCTION tidewire.compat_logging_delete() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    DELETE FROM tidewire.compat_logging WHERE id = OLD.id;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN OLD;
END;
$$;

CREATE OR REPLACE TRIGGER tidewire_insert INSTEAD OF INSERT ON "compat_app".logging
FOR EACH ROW EXECUTE FUNCTION tidewire.compat_logging_insert();
CREATE OR REPLACE TRIGGER tidewire_update INSTEAD OF UPDATE ON "compat_app".logging
FOR EACH ROW EXECUTE FUNCTION tidewire.compat_logging_update();
CREATE OR REPLACE TRIGGER tidewire_delete INSTEAD OF DELETE ON "compat_app".logging
FOR EACH ROW EXECUTE FUNCTION tidewire.compat_logging_delete();

REVOKE EXECUTE ON FUNCTION tidewire.compat_invalidate(text, uuid, integer) FROM PUBLIC;

COMMENT ON VIEW "compat_app".logging IS
    'Made by tidewire migrate --compat: what an application says of its entities';

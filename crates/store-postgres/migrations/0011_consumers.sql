-- What programs need that read the log by SQL, as consumers do: how far each group of them has got, the
-- number by which an event was known while it waited for its offset, when it got that, and signals on
-- the channels that such programs listen to.

-- How far each group of consumers has got in each of its partitions. Topic 1 is the whole log. The
-- columns are those that other tools expect under this name.
CREATE TABLE tidewire.consumer_offsets (
    group_id     varchar(255) COLLATE "C" NOT NULL,
    topic_id     integer      NOT NULL,
    partition_id integer      NOT NULL,
    -- The first offset that is not consumed yet.
    next_offset  bigint       NOT NULL DEFAULT 1,
    PRIMARY KEY (group_id, topic_id, partition_id),
    CONSTRAINT next_offset_check CHECK (next_offset > 0),
    CONSTRAINT partition_id_check CHECK (partition_id >= 0)
);

-- `outbox_id` is the id that a captured event had in the staging table, or would have had if it had
-- waited there: whoever knew it by that number finds it again. `published_at` is when a change of a row
-- got its offset; `created_at` is when it was made.
ALTER TABLE tidewire.log ADD COLUMN outbox_id bigint, ADD COLUMN published_at timestamptz;
ALTER TABLE tidewire.log_archive ADD COLUMN outbox_id bigint, ADD COLUMN published_at timestamptz;

-- A row is checked when it becomes an event: by the log's constraints, and one that fails is set aside with
-- the reason. Here the same constraints took as long as all else that a trigger does, because the
-- database reads them anew for each statement.
ALTER TABLE tidewire.staging
    DROP CONSTRAINT operation_check, DROP CONSTRAINT after_data_check,
    DROP CONSTRAINT before_data_check, DROP CONSTRAINT control_check;

-- Tells those who listen to the channels `cdc_outbox` and `event_channel` of events that were added to
-- the log. It is the transaction that gives offsets that tells, and no user's: NOTIFY makes all who
-- commit wait for each other, and who looks at the log because of it finds the event there.
CREATE FUNCTION tidewire.tell_listeners() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    PERFORM pg_notify('cdc_outbox', json_build_object(
        'id', outbox_id, 'table_name', table_name, 'operation', operation
    )::text)
    FROM added
    WHERE operation IS NOT NULL
    ORDER BY c_offset;
    IF EXISTS (SELECT FROM added WHERE control IS NULL) THEN
        PERFORM pg_notify('event_channel', 'new_event');
    END IF;
    RETURN NULL;
END;
$$;

-- Whether those channels are told. Returns whether that changed.
CREATE FUNCTION tidewire.set_wake(always boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF always = EXISTS (
        SELECT FROM pg_trigger
        WHERE tgrelid = 'tidewire.log'::regclass AND tgname = 'tell_listeners'
    ) THEN
        RETURN false;
    END IF;
    IF always THEN
        CREATE OR REPLACE TRIGGER tell_listeners AFTER INSERT ON tidewire.log
        REFERENCING NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION tidewire.tell_listeners();
    ELSE
        DROP TRIGGER IF EXISTS tell_listeners ON tidewire.log;
    END IF;
    RETURN true;
END;
$$;

REVOKE EXECUTE ON FUNCTION tidewire.tell_listeners(), tidewire.set_wake(boolean) FROM PUBLIC;

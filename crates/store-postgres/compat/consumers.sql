-- Where the log stands, and how far consumers have got.

CREATE OR REPLACE VIEW "compat_public".log_counter AS
SELECT id, next_offset FROM tidewire.log_counter;

-- The one row is there from the start.
CREATE OR REPLACE FUNCTION tidewire.compat_counter_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF NEW.id IS DISTINCT FROM 1 THEN
        RAISE EXCEPTION 'log_counter has one row, whose id is 1' USING
            ERRCODE = 'feature_not_supported', HINT = 'There is one log: read its counter.';
    END IF;
    RETURN NULL;
END;
$$;

-- Reserves nothing: an offset is given once its event is committed, so that there are no gaps and nobody
-- waits for another's transaction. What the statement returns is the lowest offset that the transaction's
-- events may get.
CREATE OR REPLACE FUNCTION tidewire.compat_counter_update() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF NEW.id IS DISTINCT FROM 1 OR NEW.next_offset IS NULL OR NEW.next_offset < OLD.next_offset THEN
        RAISE EXCEPTION 'the log''s offsets do not go back' USING
            ERRCODE = 'feature_not_supported',
            HINT = 'The counter follows the log; raising it reserves nothing, and lowering it would '
                'give offsets twice.';
    END IF;
    RETURN NEW;
END;
$$;

CREATE OR REPLACE TRIGGER tidewire_insert INSTEAD OF INSERT ON "compat_public".log_counter
FOR EACH ROW EXECUTE FUNCTION tidewire.compat_counter_insert();
CREATE OR REPLACE TRIGGER tidewire_update INSTEAD OF UPDATE ON "compat_public".log_counter
FOR EACH ROW EXECUTE FUNCTION tidewire.compat_counter_update();

-- One table's, so that it needs no triggers, and FOR UPDATE locks its rows.
CREATE OR REPLACE VIEW "compat_public".consumer_offsets AS
SELECT group_id, topic_id, partition_id, next_offset FROM tidewire.consumer_offsets;

COMMENT ON VIEW "compat_public".log_counter IS
    'Made by tidewire migrate --compat: the next offset';
COMMENT ON VIEW "compat_public".consumer_offsets IS
    'Made by tidewire migrate --compat: how far consumers have got';

-- The publish-subscribe document's design: every change takes its offset from one counter, whose row
-- stays locked until the writer commits, and tells those who wait by a NOTIFY.
CREATE TABLE log_counter (
    id          int PRIMARY KEY,
    next_offset bigint NOT NULL DEFAULT 1
);
INSERT INTO log_counter (id, next_offset) VALUES (1, 1);

CREATE TABLE outbox_message_t (
    id         bigserial PRIMARY KEY,
    c_offset   bigint UNIQUE,
    table_name text NOT NULL,
    operation  text NOT NULL,
    before     jsonb,
    after      jsonb
);
CREATE INDEX idx_outbox_offset ON outbox_message_t (c_offset);

CREATE FUNCTION notify_event() RETURNS trigger AS $$
BEGIN
    PERFORM pg_notify('event_channel', 'new_event');
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;
CREATE TRIGGER event_trigger AFTER INSERT ON outbox_message_t
    FOR EACH STATEMENT EXECUTE FUNCTION notify_event();

CREATE FUNCTION capture_order() RETURNS trigger AS $$
DECLARE
    reserved bigint;
BEGIN
    UPDATE log_counter SET next_offset = next_offset + 1 WHERE id = 1
        RETURNING next_offset - 1 INTO reserved;
    INSERT INTO outbox_message_t (c_offset, table_name, operation, before, after)
    VALUES (reserved, TG_TABLE_NAME, TG_OP,
            CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END,
            CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END);
    RETURN NULL;
END;
$$ LANGUAGE plpgsql;
CREATE TRIGGER capture AFTER INSERT OR UPDATE OR DELETE ON orders
    FOR EACH ROW EXECUTE FUNCTION capture_order();

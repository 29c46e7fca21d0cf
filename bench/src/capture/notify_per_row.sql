-- The CDC document's design: an outbox row and a NOTIFY for every change, in the writer's transaction.
CREATE TABLE outbox (
    id            serial PRIMARY KEY,
    created_at    timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
    table_name    varchar(255) NOT NULL,
    operation     varchar(10) NOT NULL,
    after_data    jsonb,
    before_data   jsonb,
    processed     boolean DEFAULT false,
    error_message text,
    published_at  timestamp
);
CREATE INDEX ON outbox (processed);
CREATE INDEX ON outbox (created_at DESC);
CREATE INDEX ON outbox (table_name, processed);

CREATE FUNCTION notify_outbox_change() RETURNS trigger AS $$
BEGIN
    PERFORM pg_notify('cdc_outbox', json_build_object(
        'id', NEW.id, 'table_name', NEW.table_name, 'operation', NEW.operation
    )::text);
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;
CREATE TRIGGER outbox_notify AFTER INSERT ON outbox
    FOR EACH ROW EXECUTE FUNCTION notify_outbox_change();

CREATE FUNCTION capture_order() RETURNS trigger AS $$
BEGIN
    INSERT INTO outbox (table_name, operation, before_data, after_data)
    VALUES (TG_TABLE_NAME, TG_OP,
            CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END,
            CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END);
    RETURN NULL;
END;
$$ LANGUAGE plpgsql;
CREATE TRIGGER capture AFTER INSERT OR UPDATE OR DELETE ON orders
    FOR EACH ROW EXECUTE FUNCTION capture_order();

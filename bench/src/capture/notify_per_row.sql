-- The CDC document's design: an outbox row and a NOTIFY for every change, in the writer's transaction.
CREATE TABLE outbox (
    id            bigserial PRIMARY KEY,
    created_at    timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
    table_name    varchar(255) NOT NULL,
    operation     varchar(10) NOT NULL,
    after_data    jsonb,
    before_data   jsonb,
    processed     boolean NOT NULL DEFAULT false,
    error_message text,
    published_at  timestamp,
    CONSTRAINT operation_check CHECK (operation IN ('INSERT', 'UPDATE', 'DELETE')),
    CONSTRAINT after_data_check CHECK (
        (operation = 'DELETE' AND after_data IS NULL)
        OR (operation IN ('INSERT', 'UPDATE') AND after_data IS NOT NULL)
    ),
    CONSTRAINT before_data_check CHECK (
        (operation = 'INSERT' AND before_data IS NULL)
        OR (operation IN ('UPDATE', 'DELETE') AND before_data IS NOT NULL)
    )
);
CREATE INDEX ON outbox (processed) WHERE processed = false;
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

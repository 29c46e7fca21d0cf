-- The outbox of messages: the whole log as consumers read it by offset, and what waits for one.
--
-- A message is a document of some stream, or the change of a row as a document. Inserting one publishes
-- it. Its offset is given after the transaction is committed, whatever was asked for: offsets have no
-- gaps because nobody holds one who may yet roll back.

CREATE INDEX IF NOT EXISTS log_compat_id ON tidewire.log (outbox_id) WHERE outbox_id IS NOT NULL;

-- A document as text: as it is, or in base64 if it is no text.
CREATE OR REPLACE FUNCTION tidewire.as_text(document bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = '' AS $$
BEGIN
    RETURN convert_from(document, 'UTF8');
EXCEPTION WHEN data_exception THEN
    RETURN translate(encode(document, 'base64'), E'\n', '');
END;
$$;

CREATE OR REPLACE VIEW "compat_public".outbox_message_t AS
SELECT c_offset, id, stream_id, host_id, user_id, payload, content_type, txid, tx_last, created_at
FROM (
    SELECT c_offset, outbox_id AS id, stream_id, host_id, user_id,
           CASE WHEN operation IS NOT NULL THEN jsonb_build_object(
                    'tableName', table_name, 'operation', operation, 'data', after_data,
                    'before', before_data
                )::text
                ELSE tidewire.as_text(payload) END AS payload,
           content_type, txid, tx_last, created_at, control
    FROM tidewire.log
    UNION ALL
    SELECT NULL, id, stream_id, host_id, user_id,
           CASE WHEN operation IS NOT NULL THEN jsonb_build_object(
                    'tableName', table_name, 'operation', operation, 'data', after_data,
                    'before', before_data
                )::text
                ELSE tidewire.as_text(payload) END,
           content_type, txid, NULL, created_at, control
    FROM tidewire.staging
) AS everywhere
WHERE control IS NULL;

-- Publishes a document in the writer's own transaction, to the stream outbox_message_t unless another is
-- named.
CREATE OR REPLACE FUNCTION tidewire.compat_message_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    host  CONSTANT text := coalesce(current_setting('tidewire.host_id', true), '');
    actor CONSTANT text := coalesce(current_setting('tidewire.user_id', true), '');
BEGIN
    NEW.stream_id := coalesce(NEW.stream_id, 'outbox_message_t');
    NEW.host_id := coalesce(NEW.host_id, nullif(host, ''));
    NEW.user_id := coalesce(NEW.user_id, nullif(actor, ''));
    PERFORM set_config('tidewire.host_id', coalesce(NEW.host_id, ''), true),
            set_config('tidewire.user_id', coalesce(NEW.user_id, ''), true);
    PERFORM tidewire.publish(NEW.stream_id, NEW.payload::jsonb);
    PERFORM set_config('tidewire.host_id', host, true), set_config('tidewire.user_id', actor, true);
    SELECT staging.id, staging.txid, staging.created_at, staging.content_type, NULL, NULL
    INTO NEW.id, NEW.txid, NEW.created_at, NEW.content_type, NEW.tx_last, NEW.c_offset
    FROM tidewire.staging WHERE staging.id = currval('tidewire.staging_id_seq');
    RETURN NEW;
END;
$$;

CREATE OR REPLACE TRIGGER tidewire_insert INSTEAD OF INSERT ON "compat_public".outbox_message_t
FOR EACH ROW EXECUTE FUNCTION tidewire.compat_message_insert();

COMMENT ON VIEW "compat_public".outbox_message_t IS
    'Made by tidewire migrate --compat: the log, for consumers';

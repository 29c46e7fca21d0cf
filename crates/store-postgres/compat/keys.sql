-- API keys, with their times as `timestamp`: shown, and taken, in the session's TimeZone. Deleting needs
-- no trigger: the view is one table's.

CREATE OR REPLACE VIEW "compat_public".api_keys AS
SELECT id, name, key_hash, scopes, created_at::timestamp AS created_at,
       last_used_at::timestamp AS last_used_at, is_active, expires_at::timestamp AS expires_at
FROM tidewire.api_keys;

CREATE OR REPLACE FUNCTION tidewire.compat_key_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    NEW.id := coalesce(NEW.id, nextval(pg_get_serial_sequence('tidewire.api_keys', 'id')));
    NEW.scopes := coalesce(NEW.scopes, '{"tables": ["*"]}');
    NEW.created_at := coalesce(NEW.created_at, clock_timestamp()::timestamp);
    NEW.is_active := coalesce(NEW.is_active, true);
    INSERT INTO tidewire.api_keys (
        id, name, key_hash, scopes, created_at, last_used_at, is_active, expires_at
    ) VALUES (
        NEW.id, NEW.name, NEW.key_hash, NEW.scopes, NEW.created_at::timestamptz,
        NEW.last_used_at::timestamptz, NEW.is_active, NEW.expires_at::timestamptz
    );
    RETURN NEW;
END;
$$;

-- Only what is changed is written: a time that passes through the session's TimeZone may be ambiguous.
CREATE OR REPLACE FUNCTION tidewire.compat_key_update() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    UPDATE tidewire.api_keys SET
        id = NEW.id, name = NEW.name, key_hash = NEW.key_hash, scopes = NEW.scopes,
        is_active = NEW.is_active,
        created_at = CASE WHEN NEW.created_at IS DISTINCT FROM OLD.created_at
            THEN NEW.created_at::timestamptz ELSE created_at END,
        last_used_at = CASE WHEN NEW.last_used_at IS DISTINCT FROM OLD.last_used_at
            THEN NEW.last_used_at::timestamptz ELSE last_used_at END,
        expires_at = CASE WHEN NEW.expires_at IS DISTINCT FROM OLD.expires_at
            THEN NEW.expires_at::timestamptz ELSE expires_at END
    WHERE id = OLD.id;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END;
$$;

CREATE OR REPLACE TRIGGER tidewire_insert INSTEAD OF INSERT ON "compat_public".api_keys
FOR EACH ROW EXECUTE FUNCTION tidewire.compat_key_insert();
CREATE OR REPLACE TRIGGER tidewire_update INSTEAD OF UPDATE ON "compat_public".api_keys
FOR EACH ROW EXECUTE FUNCTION tidewire.compat_key_update();

COMMENT ON VIEW "compat_public".api_keys IS
    'Made by tidewire migrate --compat: API keys';

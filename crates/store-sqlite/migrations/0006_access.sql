-- Access: the keys that clients show, tickets that are good for one use, the channel by which nodes
-- tell each other what must not wait, and whose each stream is.
--
-- `tidewire_api_keys` has the columns that other tools expect under these names. Times are
-- milliseconds since the Unix epoch. Of a key only its SHA-256 is kept. Ids are never given twice
-- (AUTOINCREMENT): what is remembered of a key that is gone must not be taken for another's.

CREATE TABLE tidewire_api_keys (
    id           integer PRIMARY KEY AUTOINCREMENT,
    name         text    NOT NULL,
    key_hash     text    NOT NULL,
    scopes       text    NOT NULL DEFAULT '{"tables": ["*"]}',
    created_at   integer NOT NULL
        DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer)),
    last_used_at integer,
    is_active    boolean NOT NULL DEFAULT true,
    expires_at   integer,
    CONSTRAINT name_length CHECK (length(name) BETWEEN 1 AND 255),
    CONSTRAINT key_hash_format CHECK (
        length(key_hash) = 64 AND key_hash NOT GLOB '*[^a-f0-9]*'
    ),
    CONSTRAINT scopes_validation CHECK (
        json_valid(scopes) AND json_type(scopes, '$.tables') IS NOT NULL
    ),
    CONSTRAINT whole_times CHECK (
        typeof(created_at) = 'integer' AND typeof(last_used_at) IN ('integer', 'null')
        AND typeof(expires_at) IN ('integer', 'null')
    )
);

CREATE UNIQUE INDEX tidewire_api_keys_key_hash ON tidewire_api_keys (key_hash);
CREATE INDEX tidewire_api_keys_active ON tidewire_api_keys (is_active);
CREATE INDEX tidewire_api_keys_expires_at ON tidewire_api_keys (expires_at);

-- Tickets stand for whoever asked for one, in a URL and once.
CREATE TABLE tidewire_tickets (
    ticket_hash text    PRIMARY KEY,
    holder      text    NOT NULL CHECK (json_valid(holder)),
    expires_at  integer NOT NULL
);

CREATE INDEX tidewire_tickets_expiry ON tidewire_tickets (expires_at);

-- What is told to all who share the store. One process owns the file, but a person may change it
-- beside that process.
CREATE TABLE tidewire_control (
    id         integer PRIMARY KEY AUTOINCREMENT,
    kind       text    NOT NULL,
    body       text    NOT NULL CHECK (json_valid(body)),
    created_at integer NOT NULL
        DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer))
);

CREATE INDEX tidewire_control_age ON tidewire_control (created_at);

-- Tells of a key that is no longer what may be remembered of it, whoever changed it. A noted use of
-- a key is no news.
CREATE TRIGGER tidewire_key_updated AFTER UPDATE ON tidewire_api_keys
WHEN (OLD.id, OLD.name, OLD.key_hash, OLD.scopes, OLD.created_at, OLD.is_active, OLD.expires_at)
     IS NOT
     (NEW.id, NEW.name, NEW.key_hash, NEW.scopes, NEW.created_at, NEW.is_active, NEW.expires_at)
BEGIN
    INSERT INTO tidewire_control (kind, body)
    VALUES ('key_changed', json_object('id', OLD.id));
END;

CREATE TRIGGER tidewire_key_deleted AFTER DELETE ON tidewire_api_keys
BEGIN
    INSERT INTO tidewire_control (kind, body)
    VALUES ('key_changed', json_object('id', OLD.id));
END;

-- The tenant of the stream's maker. Streams of no tenant are shared.
ALTER TABLE tidewire_streams ADD COLUMN host_id text;

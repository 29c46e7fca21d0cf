-- Capture: which tables are watched, and what the changes of their rows need on their way to the
-- log.

-- Two more control events: a table's columns changed, and a place by which everything is in the log
-- that was committed before. The rule is made wider in place: what is there obeyed the narrower one,
-- and a log can be too large to be copied.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
    SET sql = replace(sql, '''expire'', ''subscription''',
                      '''expire'', ''subscription'', ''schema'', ''mark''')
    WHERE type = 'table' AND name = 'log';
PRAGMA writable_schema = RESET;

-- What is staged may be a control event; what failed waits for its next attempt.
ALTER TABLE tidewire_staging ADD COLUMN control TEXT;
ALTER TABLE tidewire_staging ADD COLUMN retry_at INTEGER;

-- The watched tables. `key_columns` is a JSON array; `shape` the columns and their types, as
-- subscribers were last told of them.
CREATE TABLE tidewire_watches (
    table_name  TEXT    PRIMARY KEY,
    stream_id   TEXT    NOT NULL UNIQUE,
    key_columns TEXT    NOT NULL CHECK (json_valid(key_columns)),
    entity_code TEXT,
    host_column TEXT,
    user_column TEXT,
    shape       TEXT    NOT NULL CHECK (json_valid(shape)),
    events      INTEGER NOT NULL DEFAULT 0,
    last_offset INTEGER,
    created_at  INTEGER NOT NULL
) WITHOUT ROWID;

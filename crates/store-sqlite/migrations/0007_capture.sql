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

-- The watched tables. `key_columns` is a JSON array, and follows the primary key unless it was given;
-- `shape` the columns and their types, as
-- subscribers were last told of them. A table that is renamed keeps the name of its stream, so
-- `source_table` is what it is called. `known_offset` is the place in the log to which
-- tidewire_known_rows is up to date.
CREATE TABLE tidewire_watches (
    table_name   TEXT    PRIMARY KEY,
    stream_id    TEXT    NOT NULL UNIQUE,
    source_table TEXT    NOT NULL,
    key_columns  TEXT    NOT NULL CHECK (json_valid(key_columns)),
    key_given    INTEGER NOT NULL,
    entity_code  TEXT,
    host_column  TEXT,
    user_column  TEXT,
    shape        TEXT    NOT NULL CHECK (json_valid(shape)),
    events       INTEGER NOT NULL DEFAULT 0,
    last_offset  INTEGER,
    known_offset INTEGER NOT NULL DEFAULT 0,
    created_at   INTEGER NOT NULL
) WITHOUT ROWID;

-- The rows of watched tables as the log tells them: as they were when watching began, and the changes
-- up to `known_offset` applied. When another process has written to the file, the difference to the
-- tables is what it changed. Equal rows are possible where a table has no key, so they are counted.
CREATE TABLE tidewire_known_rows (
    table_name TEXT    NOT NULL,
    entity_id  TEXT    NOT NULL,
    row_data   TEXT    NOT NULL,
    copies     INTEGER NOT NULL,
    PRIMARY KEY (table_name, entity_id, row_data)
) WITHOUT ROWID;

-- The rows of a table as they are, while they are compared. Empty otherwise.
CREATE TABLE tidewire_found_rows (
    entity_id TEXT    NOT NULL,
    row_data  TEXT    NOT NULL,
    copies    INTEGER NOT NULL,
    PRIMARY KEY (entity_id, row_data)
) WITHOUT ROWID;

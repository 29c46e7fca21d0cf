-- The log, the place where captured rows wait for their offset, and the log's history.
--
-- One writer gives offsets: the tip is the highest key, there is no counter to keep in step.
-- `log_counter` shows it under the name and shape that other tools expect. Times are milliseconds
-- since the Unix epoch; JSON is text. Tables share the file with the user's own, so all but the log carry
-- a prefix: `tidewire.x` in PostgreSQL is `tidewire_x` here.

CREATE TABLE log (
    c_offset      INTEGER PRIMARY KEY CHECK (c_offset > 0),
    stream_id     TEXT    NOT NULL,
    append_id     INTEGER NOT NULL,
    host_id       TEXT,
    user_id       TEXT,
    table_name    TEXT,
    operation     TEXT,
    entity_code   TEXT,
    entity_id     TEXT,
    before_data   TEXT,
    after_data    TEXT,
    payload       BLOB,
    content_type  TEXT,
    control       TEXT,
    txid          INTEGER,
    tx_last       INTEGER NOT NULL DEFAULT 1,
    trace_context TEXT,
    created_at    INTEGER NOT NULL,
    CONSTRAINT operation_check CHECK (operation IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')),
    CONSTRAINT after_data_check CHECK (
        CASE WHEN operation IN ('INSERT', 'UPDATE') THEN after_data IS NOT NULL
             ELSE after_data IS NULL END
    ),
    CONSTRAINT before_data_check CHECK (
        CASE WHEN operation IN ('UPDATE', 'DELETE') THEN before_data IS NOT NULL
             ELSE before_data IS NULL END
    ),
    CONSTRAINT control_check CHECK (
        control IN ('create', 'close', 'delete', 'expire', 'subscription')
    )
);

-- Control events are not part of what a stream shows, so they are not in its index.
CREATE INDEX log_stream ON log (stream_id, c_offset) WHERE control IS NULL;

-- The seeds' counter, for those who read it.
CREATE VIEW log_counter AS
    SELECT 1 AS id, coalesce((SELECT max(c_offset) FROM log), 0) + 1 AS next_offset;

-- Captured rows that could not be published at once and wait to be tried again.
CREATE TABLE tidewire_staging (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    stream_id     TEXT    NOT NULL,
    append_id     INTEGER,
    host_id       TEXT,
    user_id       TEXT,
    table_name    TEXT,
    operation     TEXT,
    entity_code   TEXT,
    entity_id     TEXT,
    before_data   TEXT,
    after_data    TEXT,
    payload       BLOB,
    content_type  TEXT,
    txid          INTEGER NOT NULL,
    trace_context TEXT,
    created_at    INTEGER NOT NULL,
    error_message TEXT,
    attempts      INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT operation_check CHECK (operation IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')),
    CONSTRAINT after_data_check CHECK (
        CASE WHEN operation IN ('INSERT', 'UPDATE') THEN after_data IS NOT NULL
             ELSE after_data IS NULL END
    ),
    CONSTRAINT before_data_check CHECK (
        CASE WHEN operation IN ('UPDATE', 'DELETE') THEN before_data IS NOT NULL
             ELSE before_data IS NULL END
    )
);

-- The log's history: rises when a backup replaces it, and tells old cursors from new ones.
CREATE TABLE tidewire_log_epoch (
    only_row INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    epoch    INTEGER NOT NULL CHECK (epoch BETWEEN 1 AND 9999)
);
INSERT INTO tidewire_log_epoch (epoch) VALUES (1);

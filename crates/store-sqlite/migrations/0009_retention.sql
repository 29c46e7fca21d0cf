-- Retention: up to where a stream's events were given up, which ranges of the log wait to be removed,
-- how much of the log is captured rows, and where those go that are kept elsewhere.

-- The last event of the stream that was given up. Reading begins after it, also while its events
-- are still on disk. A cursor before it has lost something.
ALTER TABLE tidewire_streams ADD COLUMN trimmed_to INTEGER NOT NULL DEFAULT 0;

-- Ranges of a living stream that were given up and are removed a piece at a time, not before
-- `due_at_ms`, so that a read under way still finds them.
CREATE TABLE tidewire_trims (
    stream_id    TEXT    NOT NULL,
    after_offset INTEGER NOT NULL,
    up_to_offset INTEGER NOT NULL,
    archive      BOOLEAN NOT NULL,
    due_at_ms    INTEGER NOT NULL,
    PRIMARY KEY (stream_id, after_offset)
) WITHOUT ROWID;

-- How many captured rows there are, and of how many bytes, in each range of 5,000 offsets (`bucket`
-- is the offset divided by that), so that nobody has to look at all of them to know. `newest_ms` is
-- that of all events of the range. A range goes when nothing of it is left that retention removes.
CREATE TABLE tidewire_log_buckets (
    bucket    INTEGER PRIMARY KEY,
    events    INTEGER NOT NULL CHECK (events >= 0),
    bytes     INTEGER NOT NULL CHECK (bytes >= 0),
    newest_ms INTEGER NOT NULL
);

-- Up to where that was measured, and the sums of it.
CREATE TABLE tidewire_log_measured (
    only_row INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    up_to    INTEGER NOT NULL,
    events   INTEGER NOT NULL CHECK (events >= 0),
    bytes    INTEGER NOT NULL CHECK (bytes >= 0)
);
INSERT INTO tidewire_log_measured (up_to, events, bytes) VALUES (0, 0, 0);

-- Where captured rows go that are archived.
CREATE TABLE tidewire_log_archive (
    c_offset      INTEGER PRIMARY KEY,
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
    tx_last       INTEGER NOT NULL,
    trace_context TEXT,
    created_at    INTEGER NOT NULL,
    archived_at   INTEGER NOT NULL
);
CREATE INDEX tidewire_log_archive_stream ON tidewire_log_archive (stream_id, c_offset);

-- For retention, which waits for those who have not read a stream.
CREATE INDEX tidewire_subscription_links_by_stream ON tidewire_subscription_links (stream_id);

-- Retention: up to where a stream's events were given up, which ranges of the log wait to be removed,
-- how much of the log is captured rows, and where those go that are kept elsewhere.

-- The last event of the stream that was given up. Reading begins after it, also while its events
-- are still on disk. A cursor before it has lost something.
ALTER TABLE tidewire.streams ADD COLUMN trimmed_to bigint NOT NULL DEFAULT 0;

-- Ranges of a living stream that were given up and are removed a piece at a time, not before
-- `due_at_ms`, so that a read under way still finds them.
CREATE TABLE tidewire.trims (
    stream_id    text    COLLATE "C" NOT NULL,
    after_offset bigint  NOT NULL,
    up_to_offset bigint  NOT NULL,
    archive      boolean NOT NULL,
    due_at_ms    bigint  NOT NULL,
    PRIMARY KEY (stream_id, after_offset)
);

-- How many captured rows there are, and of how many bytes, in each range of 5,000 offsets (`bucket`
-- is the offset divided by that), so that nobody has to look at all of them to know. `newest_ms` is
-- that of all events of the range. A range goes when nothing of it is left that retention removes.
CREATE TABLE tidewire.log_buckets (
    bucket    bigint PRIMARY KEY,
    events    bigint NOT NULL CHECK (events >= 0),
    bytes     bigint NOT NULL CHECK (bytes >= 0),
    newest_ms bigint NOT NULL
);

-- Up to where that was measured, and the sums of it.
CREATE TABLE tidewire.log_measured (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    up_to    bigint  NOT NULL,
    events   bigint  NOT NULL CHECK (events >= 0),
    bytes    bigint  NOT NULL CHECK (bytes >= 0)
);
INSERT INTO tidewire.log_measured (up_to, events, bytes) VALUES (0, 0, 0);

-- Where captured rows go that are archived.
CREATE TABLE tidewire.log_archive (
    LIKE tidewire.log,
    archived_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (c_offset)
);
CREATE INDEX log_archive_stream ON tidewire.log_archive (stream_id, c_offset);

-- For retention, which waits for those who have not read a stream.
CREATE INDEX subscription_links_by_stream ON tidewire.subscription_links (stream_id);

-- Consumer groups: what they read, who works, what failed and what was set aside.
--
-- The row of `tidewire_consumer_offsets` is the truth about a partition. `generation` counts what happened to
-- a partition besides its advance; what a member remembers is good for one generation.

CREATE TABLE tidewire_consumer_groups (
    group_id          TEXT    NOT NULL PRIMARY KEY,
    total_partitions  INTEGER NOT NULL CHECK (total_partitions BETWEEN 1 AND 1024),
    -- A change of the number that is under way: nothing at or past the barrier is handed out until every
    -- partition stands there.
    wanted_partitions INTEGER CHECK (wanted_partitions BETWEEN 1 AND 1024),
    barrier           INTEGER,
    -- Names of tables, and patterns of other streams, as JSON arrays. If both are empty the group reads
    -- everything.
    tables            TEXT    NOT NULL DEFAULT '[]',
    streams           TEXT    NOT NULL DEFAULT '[]',
    max_attempts      INTEGER NOT NULL DEFAULT 5 CHECK (max_attempts > 0),
    on_dead           TEXT    NOT NULL DEFAULT 'park' CHECK (on_dead IN ('park', 'skip')),
    -- Why the whole group stands still: paused, events_lost, dead_letters_full.
    stopped           TEXT,
    -- Up to here retention's hard limit took events that the group had not seen.
    lost_to           INTEGER NOT NULL DEFAULT 0,
    created_at_ms     INTEGER NOT NULL
) WITHOUT ROWID;

ALTER TABLE tidewire_consumer_offsets ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
-- Who moved it last, or has it by a lease.
ALTER TABLE tidewire_consumer_offsets ADD COLUMN member TEXT;
ALTER TABLE tidewire_consumer_offsets ADD COLUMN moved_at_ms INTEGER;
ALTER TABLE tidewire_consumer_offsets ADD COLUMN lease_until_ms INTEGER;
-- The first offset after the leased batch.
ALTER TABLE tidewire_consumer_offsets ADD COLUMN leased_to INTEGER;
ALTER TABLE tidewire_consumer_offsets ADD COLUMN retry_at_ms INTEGER;
-- Keys with failed attempts, and keys that are parked.
ALTER TABLE tidewire_consumer_offsets ADD COLUMN failing INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tidewire_consumer_offsets ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;
-- Letters wait to be worked off again.
ALTER TABLE tidewire_consumer_offsets ADD COLUMN redrive INTEGER NOT NULL DEFAULT 0;
-- Why it stands still: a code, a colon, and what to do.
ALTER TABLE tidewire_consumer_offsets ADD COLUMN trouble TEXT;

CREATE TABLE tidewire_consumer_members (
    group_id       TEXT    NOT NULL,
    member_id      TEXT    NOT NULL,
    kind           TEXT    NOT NULL CHECK (kind IN ('library', 'http')),
    pinned         INTEGER,
    joined_at_ms   INTEGER NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    report         TEXT    NOT NULL DEFAULT '{}',
    PRIMARY KEY (group_id, member_id)
) WITHOUT ROWID;

-- Failed runs of a key's events. `key_hash` is SHA-256 of host, a zero byte and user, as in PostgreSQL.
CREATE TABLE tidewire_consumer_attempts (
    group_id     TEXT    NOT NULL,
    partition_id INTEGER NOT NULL,
    key_hash     BLOB    NOT NULL,
    host_id      TEXT    NOT NULL,
    user_id      TEXT    NOT NULL,
    first_offset INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    verdict      TEXT    NOT NULL CHECK (verdict IN ('retry', 'dead', 'stop')),
    error        TEXT    NOT NULL,
    failed_at_ms INTEGER NOT NULL,
    PRIMARY KEY (group_id, partition_id, key_hash)
) WITHOUT ROWID;

-- Keys whose events are set aside from an offset on, because one before them could not be handled.
CREATE TABLE tidewire_consumer_parked_keys (
    group_id      TEXT    NOT NULL,
    partition_id  INTEGER NOT NULL,
    key_hash      BLOB    NOT NULL,
    host_id       TEXT    NOT NULL,
    user_id       TEXT    NOT NULL,
    from_offset   INTEGER NOT NULL,
    parked_at_ms  INTEGER NOT NULL,
    redrive_at_ms INTEGER,
    PRIMARY KEY (group_id, key_hash)
) WITHOUT ROWID;

-- Events that were set aside: those that could not be handled, and those behind them. They are copies,
-- because the log need not keep an event until somebody has looked at a letter.
CREATE TABLE tidewire_consumer_dead_letters (
    group_id      TEXT    NOT NULL,
    c_offset      INTEGER NOT NULL,
    partition_id  INTEGER NOT NULL,
    key_hash      BLOB    NOT NULL,
    state         TEXT    NOT NULL CHECK (state IN ('dead', 'parked')),
    error         TEXT,
    attempts      INTEGER NOT NULL DEFAULT 0,
    died_at_ms    INTEGER NOT NULL,
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
    txid          INTEGER,
    tx_last       INTEGER NOT NULL,
    trace_context TEXT,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (group_id, c_offset)
) WITHOUT ROWID;

-- With the state, so that letters are counted without reading them.
CREATE INDEX tidewire_consumer_dead_letters_by_key
    ON tidewire_consumer_dead_letters (group_id, key_hash, c_offset, state);

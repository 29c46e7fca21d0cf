-- Consumer groups: what they read, who works, what failed and what was set aside.
--
-- The row of `consumer_offsets` is the truth about a partition, and its lock: whoever changes anything else
-- about the partition holds it. `generation` counts what happened to a partition besides its advance; what
-- a member remembers is good for one generation.

CREATE TABLE tidewire.consumer_groups (
    group_id          varchar(255) COLLATE "C" PRIMARY KEY,
    total_partitions  integer  NOT NULL CHECK (total_partitions BETWEEN 1 AND 1024),
    -- A change of the number that is under way: nothing at or past the barrier is handed out until every
    -- partition stands there.
    wanted_partitions integer  CHECK (wanted_partitions BETWEEN 1 AND 1024),
    barrier           bigint,
    -- Names of tables, and patterns of other streams. If both are empty the group reads everything.
    tables            text[]   NOT NULL DEFAULT '{}',
    streams           text[]   NOT NULL DEFAULT '{}',
    max_attempts      integer  NOT NULL DEFAULT 5 CHECK (max_attempts > 0),
    on_dead           text     NOT NULL DEFAULT 'park' CHECK (on_dead IN ('park', 'skip')),
    -- Why the whole group stands still: paused, events_lost, dead_letters_full.
    stopped           text,
    -- Up to here retention's hard limit took events that the group had not seen.
    lost_to           bigint   NOT NULL DEFAULT 0,
    created_at_ms     bigint   NOT NULL
);

-- No index but the key, and room on each page: every advance writes its row anew beside the old one.
ALTER TABLE tidewire.consumer_offsets
    ADD COLUMN generation     bigint  NOT NULL DEFAULT 0,
    -- Who moved it last, or has it by a lease.
    ADD COLUMN member         text,
    ADD COLUMN moved_at_ms    bigint,
    ADD COLUMN lease_until_ms bigint,
    -- The first offset after the leased batch.
    ADD COLUMN leased_to      bigint,
    ADD COLUMN retry_at_ms    bigint,
    -- Keys with failed attempts, and keys that are parked.
    ADD COLUMN failing        integer NOT NULL DEFAULT 0,
    ADD COLUMN parked         integer NOT NULL DEFAULT 0,
    -- Letters wait to be worked off again.
    ADD COLUMN redrive        boolean NOT NULL DEFAULT false,
    -- Why it stands still: a code, a colon, and what to do.
    ADD COLUMN trouble        text;
ALTER TABLE tidewire.consumer_offsets SET (
    fillfactor = 20, autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE tidewire.consumer_members (
    group_id       varchar(255) COLLATE "C" NOT NULL,
    member_id      text         COLLATE "C" NOT NULL,
    kind           text         NOT NULL CHECK (kind IN ('library', 'http')),
    pinned         integer,
    joined_at_ms   bigint       NOT NULL,
    lease_until_ms bigint       NOT NULL,
    report         jsonb        NOT NULL DEFAULT '{}',
    PRIMARY KEY (group_id, member_id)
) WITH (fillfactor = 50);

-- Failed runs of a key's events. `key_hash` is SHA-256 of host, a zero byte and user: names of hosts and users
-- have no bound, keys of indexes do.
CREATE TABLE tidewire.consumer_attempts (
    group_id     varchar(255) COLLATE "C" NOT NULL,
    partition_id integer NOT NULL,
    key_hash     bytea   NOT NULL,
    host_id      text    NOT NULL,
    user_id      text    NOT NULL,
    first_offset bigint  NOT NULL,
    attempts     integer NOT NULL,
    verdict      text    NOT NULL CHECK (verdict IN ('retry', 'dead', 'stop')),
    error        text    NOT NULL,
    failed_at_ms bigint  NOT NULL,
    PRIMARY KEY (group_id, partition_id, key_hash)
);

-- Keys whose events are set aside from an offset on, because one before them could not be handled.
CREATE TABLE tidewire.consumer_parked_keys (
    group_id      varchar(255) COLLATE "C" NOT NULL,
    partition_id  integer NOT NULL,
    key_hash      bytea   NOT NULL,
    host_id       text    NOT NULL,
    user_id       text    NOT NULL,
    from_offset   bigint  NOT NULL,
    parked_at_ms  bigint  NOT NULL,
    redrive_at_ms bigint,
    PRIMARY KEY (group_id, key_hash)
);

-- Events that were set aside: those that could not be handled, and those behind them. They are copies,
-- because the log need not keep an event until somebody has looked at a letter.
CREATE TABLE tidewire.consumer_dead_letters (
    group_id      varchar(255) COLLATE "C" NOT NULL,
    c_offset      bigint      NOT NULL,
    partition_id  integer     NOT NULL,
    key_hash      bytea       NOT NULL,
    state         text        NOT NULL CHECK (state IN ('dead', 'parked')),
    error         text,
    attempts      integer     NOT NULL DEFAULT 0,
    died_at_ms    bigint      NOT NULL,
    stream_id     text        NOT NULL,
    append_id     bigint      NOT NULL,
    host_id       text,
    user_id       text,
    table_name    text,
    operation     text,
    entity_code   text,
    entity_id     text,
    before_data   jsonb,
    after_data    jsonb,
    payload       bytea,
    content_type  text,
    txid          bigint,
    tx_last       boolean     NOT NULL,
    trace_context text,
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (group_id, c_offset)
);

CREATE INDEX idx_consumer_dead_letters_key
    ON tidewire.consumer_dead_letters (group_id, key_hash, c_offset);

-- The partition of a host: the first four bytes of SHA-256 over its name, as a number, modulo the number
-- of partitions. The same in every language and in every version of the database, because progress is
-- kept by partition for years.
CREATE FUNCTION tidewire.partition_of(host text, total integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ((get_byte(hash, 0) * 16777216::bigint + get_byte(hash, 1) * 65536
             + get_byte(hash, 2) * 256 + get_byte(hash, 3)) % total)::integer
    FROM pg_catalog.sha256(pg_catalog.convert_to(coalesce(host, ''), 'UTF8')) AS hash
$$;

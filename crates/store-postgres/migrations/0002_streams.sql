-- Streams: what is known of each besides its events.
--
-- An append writes its event and nothing here, unless it carries a producer, a sequence, a close or
-- renews a sliding lifetime. A stream's end is found in the log's index, not kept in its row.

CREATE TABLE tidewire.streams (
    stream_id         text    COLLATE "C" PRIMARY KEY,
    created_offset    bigint  NOT NULL,
    content_type      text    NOT NULL,
    ttl_s             bigint,
    expires_fixed_ms  bigint,
    expires_at_ms     bigint,
    closed_offset     bigint,
    closed_by_id      text,
    closed_by_epoch   bigint,
    closed_by_seq     bigint,
    forked_from       text    COLLATE "C",
    fork_offset       bigint,
    fork_sub_offset   bigint,
    fork_position     bigint,
    forks             bigint  NOT NULL DEFAULT 0 CHECK (forks >= 0),
    soft_deleted      boolean NOT NULL DEFAULT false,
    last_seq          text,
    CONSTRAINT one_lifetime CHECK (ttl_s IS NULL OR expires_fixed_ms IS NULL),
    CONSTRAINT whole_fork CHECK (
        (forked_from IS NULL) = (fork_position IS NULL)
        AND (forked_from IS NULL) = (fork_offset IS NULL)
    )
);

-- For the sweeper: which streams' time has run out.
CREATE INDEX streams_expiry ON tidewire.streams (expires_at_ms)
    WHERE expires_at_ms IS NOT NULL AND NOT soft_deleted;

-- The last append accepted from each idempotent producer, committed with that append.
CREATE TABLE tidewire.stream_producers (
    stream_id     text    COLLATE "C" NOT NULL,
    producer_id   text    COLLATE "C" NOT NULL,
    epoch         bigint  NOT NULL,
    seq           bigint  NOT NULL,
    tail_offset   bigint  NOT NULL,
    PRIMARY KEY (stream_id, producer_id)
);

-- Ranges of events that no stream shows any more, removed by the sweeper a piece at a time, and not
-- before `due_at_ms`, so that a read under way still finds them.
CREATE TABLE tidewire.stream_purges (
    stream_id     text    COLLATE "C" NOT NULL,
    after_offset  bigint  NOT NULL,
    up_to_offset  bigint  NOT NULL,
    due_at_ms     bigint  NOT NULL,
    PRIMARY KEY (stream_id, after_offset)
);

-- Keys that all nodes share: the first to ask makes one.
CREATE TABLE tidewire.secrets (
    name   text  COLLATE "C" PRIMARY KEY,
    value  bytea NOT NULL
);

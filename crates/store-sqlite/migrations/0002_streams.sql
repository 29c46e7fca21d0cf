-- Streams: what is known of each besides its events.
--
-- An append writes its event and nothing here, unless it carries a producer, a sequence, a close or
-- renews a sliding lifetime. A stream's end is found in the log's index, not kept in its row.

CREATE TABLE tidewire_streams (
    stream_id         text    PRIMARY KEY,
    created_offset    integer  NOT NULL,
    content_type      text    NOT NULL,
    ttl_s             integer,
    expires_fixed_ms  integer,
    expires_at_ms     integer,
    closed_offset     integer,
    closed_by_id      text,
    closed_by_epoch   integer,
    closed_by_seq     integer,
    forked_from       text,
    fork_offset       integer,
    fork_sub_offset   integer,
    fork_position     integer,
    forks             integer  NOT NULL DEFAULT 0 CHECK (forks >= 0),
    soft_deleted      boolean NOT NULL DEFAULT false,
    last_seq          text,
    CONSTRAINT one_lifetime CHECK (ttl_s IS NULL OR expires_fixed_ms IS NULL),
    CONSTRAINT whole_fork CHECK (
        (forked_from IS NULL) = (fork_position IS NULL)
        AND (forked_from IS NULL) = (fork_offset IS NULL)
    )
);

-- For the sweeper: which streams' time has run out.
CREATE INDEX tidewire_streams_expiry ON tidewire_streams (expires_at_ms)
    WHERE expires_at_ms IS NOT NULL AND NOT soft_deleted;

-- The last append accepted from each idempotent producer, committed with that append.
CREATE TABLE tidewire_stream_producers (
    stream_id     text    NOT NULL,
    producer_id   text    NOT NULL,
    epoch         integer  NOT NULL,
    seq           integer  NOT NULL,
    tail_offset   integer  NOT NULL,
    PRIMARY KEY (stream_id, producer_id)
);

-- Ranges of events that no stream shows any more, removed by the sweeper a piece at a time, and not
-- before `due_at_ms`, so that a read under way still finds them.
CREATE TABLE tidewire_stream_purges (
    stream_id     text    NOT NULL,
    after_offset  integer  NOT NULL,
    up_to_offset  integer  NOT NULL,
    due_at_ms     integer  NOT NULL,
    PRIMARY KEY (stream_id, after_offset)
);

-- Keys that all nodes share: the first to ask makes one.
CREATE TABLE tidewire_secrets (
    name   text PRIMARY KEY,
    value  blob NOT NULL
);

-- Sessions: the durable identities of clients that come and go, the streams each follows, and how
-- far each has got.
--
-- `session_subscriptions`, `session_offsets` and `stream_subscriber_counts` begin with the columns
-- that other tools expect under these names. Times are milliseconds since the Unix epoch, by the
-- database's clock. Offsets are text of fixed width, which compares as they do. An append touches
-- nothing here: a pointer moves when its client says so. All changes are made under an advisory
-- lock of their own ('tide' + 4), so that the counts are exact.

CREATE TABLE tidewire.sessions (
    session_id   text   COLLATE "C" PRIMARY KEY,
    user_id      text   NOT NULL,
    host_id      text,
    revision     bigint NOT NULL DEFAULT 0,
    created_at   bigint NOT NULL,
    expires_at   bigint NOT NULL,
    node_id      text   COLLATE "C",
    served_until bigint
);

-- For the sweeper: sessions that nobody serves and whose time has run out. Those that a node serves
-- do not expire, so they are not in the way.
CREATE INDEX sessions_expiry ON tidewire.sessions (expires_at) WHERE node_id IS NULL;
CREATE INDEX sessions_by_node ON tidewire.sessions (node_id) WHERE node_id IS NOT NULL;

CREATE TABLE tidewire.session_subscriptions (
    session_id         text   COLLATE "C" NOT NULL,
    user_id            text   NOT NULL,
    stream_id          text   COLLATE "C" NOT NULL,
    subscription_epoch bigint NOT NULL,
    expires_at         bigint NOT NULL,
    query_id           text   NOT NULL,
    live_offset        text   COLLATE "C",
    PRIMARY KEY (session_id, stream_id)
);

CREATE INDEX session_subscriptions_by_stream ON tidewire.session_subscriptions (stream_id);

-- Pointers move often, and no index holds what changes in them: room on their pages keeps a move
-- from touching an index at all.
CREATE TABLE tidewire.session_offsets (
    session_id         text   COLLATE "C" NOT NULL,
    user_id            text   NOT NULL,
    stream_id          text   COLLATE "C" NOT NULL,
    subscription_epoch bigint NOT NULL,
    last_offset        text   COLLATE "C" NOT NULL,
    updated_at         bigint NOT NULL,
    PRIMARY KEY (session_id, stream_id)
) WITH (fillfactor = 70);

CREATE INDEX session_offsets_by_session ON tidewire.session_offsets (session_id);

-- How many sessions follow a stream. A stream that nobody follows has no row.
CREATE TABLE tidewire.stream_subscriber_counts (
    stream_id  text   COLLATE "C" PRIMARY KEY,
    count      bigint NOT NULL,
    updated_at bigint NOT NULL
);

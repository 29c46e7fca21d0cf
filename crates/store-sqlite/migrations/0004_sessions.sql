-- Sessions: the durable identities of clients that come and go, the streams each follows, and how
-- far each has got.
--
-- `session_subscriptions`, `session_offsets` and `stream_subscriber_counts` begin with the columns
-- that other tools expect under these names. Times are milliseconds since the Unix epoch. Offsets
-- are text of fixed width, which compares as they do. An append touches nothing here: a pointer
-- moves when its client says so.

CREATE TABLE tidewire_sessions (
    session_id   text    PRIMARY KEY,
    user_id      text    NOT NULL,
    host_id      text,
    revision     integer NOT NULL DEFAULT 0,
    created_at   integer NOT NULL,
    expires_at   integer NOT NULL,
    node_id      text,
    served_until integer
);

-- For the sweeper: sessions that nobody serves and whose time has run out. Those that a node serves
-- do not expire, so they are not in the way.
CREATE INDEX tidewire_sessions_expiry ON tidewire_sessions (expires_at) WHERE node_id IS NULL;
CREATE INDEX tidewire_sessions_by_node ON tidewire_sessions (node_id) WHERE node_id IS NOT NULL;

CREATE TABLE tidewire_session_subscriptions (
    session_id         text    NOT NULL,
    user_id            text    NOT NULL,
    stream_id          text    NOT NULL,
    subscription_epoch integer NOT NULL,
    expires_at         integer NOT NULL,
    query_id           text    NOT NULL,
    live_offset        text,
    PRIMARY KEY (session_id, stream_id)
);

CREATE INDEX tidewire_session_subscriptions_by_stream
    ON tidewire_session_subscriptions (stream_id);

CREATE TABLE tidewire_session_offsets (
    session_id         text    NOT NULL,
    user_id            text    NOT NULL,
    stream_id          text    NOT NULL,
    subscription_epoch integer NOT NULL,
    last_offset        text    NOT NULL,
    updated_at         integer NOT NULL,
    PRIMARY KEY (session_id, stream_id)
);

CREATE INDEX tidewire_session_offsets_by_session ON tidewire_session_offsets (session_id);

-- How many sessions follow a stream. A stream that nobody follows has no row.
CREATE TABLE tidewire_stream_subscriber_counts (
    stream_id  text    PRIMARY KEY,
    count      integer NOT NULL,
    updated_at integer NOT NULL
);

-- Subscriptions of the stream protocol: who is woken when streams grow, and how far each has got.

CREATE TABLE tidewire_subscriptions (
    id                 text    PRIMARY KEY,
    webhook_url        text,
    wake_stream        text,
    pattern            text,
    streams            text   NOT NULL,
    lease_ttl_ms       integer  NOT NULL,
    description        text,
    created_at_ms      integer  NOT NULL,
    generation         integer  NOT NULL DEFAULT 0,
    wake_id            text,
    wake_snapshot      text,
    holder             text,
    lease_until_ms     integer,
    retry_count        integer  NOT NULL DEFAULT 0,
    next_attempt_at_ms integer,
    CONSTRAINT one_kind CHECK ((webhook_url IS NULL) <> (wake_stream IS NULL))
);

-- For the nodes' rounds: which deliveries and leases are due.
CREATE INDEX tidewire_subscriptions_attempt ON tidewire_subscriptions (next_attempt_at_ms)
    WHERE next_attempt_at_ms IS NOT NULL;
CREATE INDEX tidewire_subscriptions_lease ON tidewire_subscriptions (lease_until_ms)
    WHERE lease_until_ms IS NOT NULL;

CREATE TABLE tidewire_subscription_links (
    subscription_id text    NOT NULL REFERENCES tidewire_subscriptions (id) ON DELETE CASCADE,
    stream_id       text    NOT NULL,
    explicit        boolean NOT NULL,
    by_pattern      boolean NOT NULL,
    acked_offset    integer  NOT NULL,
    PRIMARY KEY (subscription_id, stream_id)
);

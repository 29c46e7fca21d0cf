-- Subscriptions of the stream protocol: who is woken when streams grow, and how far each has got.

CREATE TABLE tidewire.subscriptions (
    id                 text    COLLATE "C" PRIMARY KEY,
    webhook_url        text,
    wake_stream        text,
    pattern            text,
    streams            jsonb   NOT NULL,
    lease_ttl_ms       bigint  NOT NULL,
    description        text,
    created_at_ms      bigint  NOT NULL,
    generation         bigint  NOT NULL DEFAULT 0,
    wake_id            text,
    wake_snapshot      jsonb,
    holder             text,
    lease_until_ms     bigint,
    retry_count        bigint  NOT NULL DEFAULT 0,
    next_attempt_at_ms bigint,
    CONSTRAINT one_kind CHECK ((webhook_url IS NULL) <> (wake_stream IS NULL))
);

-- For the nodes' rounds: which deliveries and leases are due.
CREATE INDEX subscriptions_attempt ON tidewire.subscriptions (next_attempt_at_ms)
    WHERE next_attempt_at_ms IS NOT NULL;
CREATE INDEX subscriptions_lease ON tidewire.subscriptions (lease_until_ms)
    WHERE lease_until_ms IS NOT NULL;

CREATE TABLE tidewire.subscription_links (
    subscription_id text    COLLATE "C" NOT NULL
                            REFERENCES tidewire.subscriptions (id) ON DELETE CASCADE,
    stream_id       text    COLLATE "C" NOT NULL,
    explicit        boolean NOT NULL,
    by_pattern      boolean NOT NULL,
    acked_offset    bigint  NOT NULL,
    PRIMARY KEY (subscription_id, stream_id)
);

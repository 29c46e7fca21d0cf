-- The tables of the systems whose SQL is to run, as their documents define them.

CREATE SCHEMA app;

CREATE TABLE app.rxdb_subscription (
    user_id UUID NOT NULL,
    entity_code VARCHAR(100) NOT NULL,
    entity_id UUID NOT NULL,
    connection_id VARCHAR(50) NOT NULL,
    subscribed_at TIMESTAMPTZ NOT NULL DEFAULT now(),

    PRIMARY KEY (user_id, entity_code, entity_id)
);

CREATE INDEX idx_rxdb_subscription_entity
    ON app.rxdb_subscription(entity_code, entity_id);

CREATE INDEX idx_rxdb_subscription_user
    ON app.rxdb_subscription(user_id);

CREATE INDEX idx_rxdb_subscription_connection
    ON app.rxdb_subscription(connection_id);

-- Not defined there, but written to and read: with these columns.
CREATE TABLE app.logging (
    id UUID PRIMARY KEY,
    entity_code VARCHAR(100) NOT NULL,
    entity_id UUID NOT NULL,
    action INT NOT NULL,
    sync_status VARCHAR(20) NOT NULL DEFAULT 'pending',
    sync_processed_ts TIMESTAMPTZ,
    created_ts TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE outbox (
    id BIGSERIAL PRIMARY KEY,
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    table_name VARCHAR(255) NOT NULL,
    operation VARCHAR(10) NOT NULL,
    after_data JSONB,
    before_data JSONB,
    processed BOOLEAN NOT NULL DEFAULT FALSE,
    error_message TEXT,
    published_at TIMESTAMP,
    CONSTRAINT operation_check CHECK (operation IN ('INSERT', 'UPDATE', 'DELETE')),
    CONSTRAINT after_data_check CHECK (
        (operation = 'DELETE' AND after_data IS NULL) OR
        (operation IN ('INSERT', 'UPDATE') AND after_data IS NOT NULL)
    ),
    CONSTRAINT before_data_check CHECK (
        (operation = 'INSERT' AND before_data IS NULL) OR
        (operation IN ('UPDATE', 'DELETE') AND before_data IS NOT NULL)
    )
);

CREATE INDEX idx_outbox_processed ON outbox(processed) WHERE processed = FALSE;
CREATE INDEX idx_outbox_created_at ON outbox(created_at DESC);
CREATE INDEX idx_outbox_table_processed ON outbox(table_name, processed);

CREATE TABLE api_keys (
    id BIGSERIAL PRIMARY KEY,
    name VARCHAR(255) NOT NULL,
    key_hash VARCHAR(64) NOT NULL UNIQUE,
    scopes JSONB NOT NULL DEFAULT '{"tables": ["*"]}',
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    last_used_at TIMESTAMP,
    is_active BOOLEAN NOT NULL DEFAULT TRUE,
    expires_at TIMESTAMP,
    CONSTRAINT key_hash_format CHECK (key_hash ~ '^[a-f0-9]{64}$'),
    CONSTRAINT scopes_validation CHECK (scopes ? 'tables')
);

CREATE INDEX idx_api_keys_key_hash ON api_keys(key_hash);
CREATE INDEX idx_api_keys_active ON api_keys(is_active);
CREATE INDEX idx_api_keys_expires_at ON api_keys(expires_at);

CREATE TABLE log_counter (
    id INT PRIMARY KEY,
    next_offset BIGINT NOT NULL DEFAULT 1
);

CREATE TABLE consumer_offsets (
    group_id VARCHAR(255),
    topic_id INT, -- 1 for global outbox
    partition_id INT, -- Logical partition index
    next_offset BIGINT NOT NULL DEFAULT 1,
    PRIMARY KEY (group_id, topic_id, partition_id)
);

-- Not defined there, but read: with these columns, and what is added to them.
CREATE TABLE outbox_message_t (
    host_id TEXT,
    user_id TEXT,
    payload TEXT
);

ALTER TABLE outbox_message_t ADD COLUMN c_offset BIGINT UNIQUE;
CREATE INDEX idx_outbox_offset ON outbox_message_t (c_offset);

-- Capture: which tables are watched, and what the changes of their rows need on their way to the
-- log.

-- Two more control events: a table's columns changed, and a place by which everything is in the log
-- that was committed before. (NOT VALID: what is there obeyed the narrower rule.)
ALTER TABLE tidewire.log DROP CONSTRAINT control_check;
ALTER TABLE tidewire.log ADD CONSTRAINT control_check CHECK (
    control IN ('create', 'close', 'delete', 'expire', 'subscription', 'schema', 'mark')
) NOT VALID;

-- What is staged may be a control event, such as the making of a stream; what failed waits for its
-- next attempt.
ALTER TABLE tidewire.staging ADD COLUMN control text;
ALTER TABLE tidewire.staging ADD COLUMN retry_at timestamptz;

-- The watched tables. A watch follows its table by oid, so that it survives a rename, and keeps the
-- name that its stream and its events have had from the start.
CREATE TABLE tidewire.watches (
    table_id    oid         PRIMARY KEY,
    table_name  text        COLLATE "C" NOT NULL UNIQUE,
    stream_id   text        COLLATE "C" NOT NULL UNIQUE,
    key_columns text[]      NOT NULL,
    entity_code text,
    host_column text,
    user_column text,
    -- The columns and their types as subscribers were last told of them.
    shape       jsonb       NOT NULL,
    events      bigint      NOT NULL DEFAULT 0,
    last_offset bigint,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

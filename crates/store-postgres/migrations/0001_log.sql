-- The log, the place where captured rows wait for their offset, and the log's history.
--
-- `log` is partitioned by offset range, so that retention drops whole partitions. The offset is
-- given by whoever holds the offset lock (an advisory lock) in a short transaction: the tip is the
-- highest key, there is no counter row to bloat. `log_counter` shows it under the name and shape
-- that other tools expect. Names compare bytewise (collation "C"), as they do in SQLite: the order
-- of names must not depend on the database's locale, nor an index on the system's libc.

-- The clock all nodes share, in milliseconds since the Unix epoch. STABLE, so that an index can be
-- searched by it.
CREATE FUNCTION tidewire.now_ms() RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = '' AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

CREATE TABLE tidewire.log (
    c_offset      bigint      NOT NULL CHECK (c_offset > 0),
    stream_id     text        COLLATE "C" NOT NULL,
    append_id     bigint      NOT NULL,
    host_id       text,
    user_id       text,
    table_name    varchar(255),
    operation     varchar(10),
    entity_code   text,
    entity_id     text,
    before_data   jsonb,
    after_data    jsonb,
    payload       bytea,
    content_type  text,
    control       text,
    txid          bigint,
    tx_last       boolean     NOT NULL DEFAULT true,
    trace_context text,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (c_offset),
    CONSTRAINT operation_check CHECK (operation IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')),
    CONSTRAINT after_data_check CHECK (
        CASE WHEN operation IN ('INSERT', 'UPDATE') THEN after_data IS NOT NULL
             ELSE after_data IS NULL END
    ),
    CONSTRAINT before_data_check CHECK (
        CASE WHEN operation IN ('UPDATE', 'DELETE') THEN before_data IS NOT NULL
             ELSE before_data IS NULL END
    ),
    CONSTRAINT control_check CHECK (
        control IN ('create', 'close', 'delete', 'expire', 'subscription')
    )
) PARTITION BY RANGE (c_offset);

-- Control events are not part of what a stream shows, so they are not in its index.
CREATE INDEX log_stream ON tidewire.log (stream_id, c_offset) WHERE control IS NULL;

-- Makes the partition that holds an offset, if it is missing, and returns the first offset past
-- it. A partition is built beside the log and attached: unlike CREATE TABLE … PARTITION OF, that
-- waits for no reader and no writer. The advisory lock ('tide' + 3) lets two nodes ask at once.
CREATE FUNCTION tidewire.ensure_log_partition(wanted bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = '' AS $$
DECLARE
    size CONSTANT bigint := 10000000;
    low  CONSTANT bigint := wanted / size * size;
    name CONSTANT text   := 'log_' || lpad((wanted / size)::text, 9, '0');
BEGIN
    IF to_regclass('tidewire.' || name) IS NULL THEN
        PERFORM pg_advisory_xact_lock(x'7469646500000003'::bigint);
        IF to_regclass('tidewire.' || name) IS NULL THEN
            EXECUTE format('CREATE TABLE tidewire.%I (LIKE tidewire.log INCLUDING ALL)', name);
            EXECUTE format('ALTER TABLE tidewire.log ATTACH PARTITION tidewire.%I
                FOR VALUES FROM (%s) TO (%s)', name, low, low + size);
        END IF;
    END IF;
    RETURN low + size;
END;
$$;

SELECT tidewire.ensure_log_partition(1);

-- The seeds' counter, for those who read it.
CREATE VIEW tidewire.log_counter AS
    SELECT 1 AS id,
           coalesce((SELECT c_offset FROM tidewire.log ORDER BY c_offset DESC LIMIT 1), 0) + 1
               AS next_offset;

-- Captured rows and published documents, written in the user's own transaction, until the
-- sequencer gives them their offset. One id at a time (CACHE 1), drawn after the transaction id.
CREATE TABLE tidewire.staging (
    id            bigint      GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
    stream_id     text        COLLATE "C" NOT NULL,
    append_id     bigint,
    host_id       text,
    user_id       text,
    table_name    varchar(255),
    operation     varchar(10),
    entity_code   text,
    entity_id     text,
    before_data   jsonb,
    after_data    jsonb,
    payload       bytea,
    content_type  text,
    txid          bigint      NOT NULL,
    trace_context text,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    error_message text,
    attempts      integer     NOT NULL DEFAULT 0,
    CONSTRAINT operation_check CHECK (operation IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')),
    CONSTRAINT after_data_check CHECK (
        CASE WHEN operation IN ('INSERT', 'UPDATE') THEN after_data IS NOT NULL
             ELSE after_data IS NULL END
    ),
    CONSTRAINT before_data_check CHECK (
        CASE WHEN operation IN ('UPDATE', 'DELETE') THEN before_data IS NOT NULL
             ELSE before_data IS NULL END
    )
);

-- The log's history: rises when a backup replaces it, and tells old cursors from new ones.
CREATE TABLE tidewire.log_epoch (
    only_row boolean  PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch    smallint NOT NULL CHECK (epoch BETWEEN 1 AND 9999)
);
INSERT INTO tidewire.log_epoch (epoch) VALUES (1);

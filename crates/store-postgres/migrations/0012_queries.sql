-- Live queries: who follows what.
--
-- Delivery does not read this list. It is for people and programs who ask who follows what, and how it
-- goes. A row belongs to the node that serves the connection, and is gone with that node's lease. What
-- counts changes often, so no index is on it, and pages have room for the new row beside the old one.

CREATE TABLE tidewire.live_queries (
    -- The connection's id, a hyphen, and the client's name for the query.
    live_id       text        COLLATE "C" PRIMARY KEY,
    connection_id text        COLLATE "C" NOT NULL,
    query_id      text        NOT NULL,
    user_id       text        NOT NULL,
    query         text        NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    changes       bigint      NOT NULL DEFAULT 0,
    node          text        COLLATE "C" NOT NULL,
    plan          text        NOT NULL,
    lag_ms        bigint,
    queue_depth   bigint      NOT NULL DEFAULT 0,
    user_agent    text,
    address       text
) WITH (fillfactor = 70);

CREATE INDEX idx_live_queries_connection ON tidewire.live_queries (connection_id);
CREATE INDEX idx_live_queries_node ON tidewire.live_queries (node);

-- Those whose node lives. The first nine columns are those that other tools expect, in their order.
CREATE VIEW tidewire.live_query AS
SELECT live_id, connection_id, query_id, user_id, query, created_at, updated_at, changes, node,
       plan, lag_ms, queue_depth, user_agent, address
FROM tidewire.live_queries
WHERE EXISTS (
    SELECT FROM tidewire.nodes
    WHERE node_id = node AND lease_until > tidewire.now_ms()
);

-- The same under the name that people know. Where that cannot be made (a role without the right to make
-- schemas, or a table of that name), the view above is still there.
DO $$
BEGIN
    IF to_regnamespace('system') IS NULL THEN
        CREATE SCHEMA system;
    END IF;
    CREATE VIEW system.live_queries AS SELECT * FROM tidewire.live_query;
EXCEPTION WHEN insufficient_privilege OR duplicate_table OR duplicate_schema OR unique_violation THEN
    RAISE NOTICE 'there is no view system.live_queries: %; read tidewire.live_query', SQLERRM;
END;
$$;

-- The last constraint of the staging table, for the same reason as the others before it: the database
-- reads it anew for each row that a trigger stages. What `tidewire.invalidate` is given it checks itself.
ALTER TABLE tidewire.staging DROP CONSTRAINT entity_action_check;

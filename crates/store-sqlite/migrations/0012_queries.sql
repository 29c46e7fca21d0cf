-- Live queries: who follows what.
--
-- Delivery does not read this list. It is for people and programs who ask who follows what, and how it
-- goes. A row belongs to the node that serves the connection, and is gone with that node's lease.

CREATE TABLE tidewire_live_queries (
    -- The connection's id, a hyphen, and the client's name for the query.
    live_id       TEXT    NOT NULL PRIMARY KEY,
    connection_id TEXT    NOT NULL,
    query_id      TEXT    NOT NULL,
    user_id       TEXT    NOT NULL,
    query         TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    changes       INTEGER NOT NULL DEFAULT 0,
    node          TEXT    NOT NULL,
    plan          TEXT    NOT NULL,
    lag_ms        INTEGER,
    queue_depth   INTEGER NOT NULL DEFAULT 0,
    user_agent    TEXT,
    address       TEXT
) WITHOUT ROWID;

CREATE INDEX tidewire_live_queries_by_connection ON tidewire_live_queries (connection_id);
CREATE INDEX tidewire_live_queries_by_node ON tidewire_live_queries (node);

-- Those whose node lives, with times as people read them. The first nine columns are those that other
-- tools expect, in their order. SQL that names system.live_queries reads this view.
CREATE VIEW tidewire_live_query AS
SELECT live_id, connection_id, query_id, user_id, query,
       strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000.0, 'unixepoch') AS updated_at,
       changes, node, plan, lag_ms, queue_depth, user_agent, address
FROM tidewire_live_queries
WHERE EXISTS (
    SELECT 1 FROM tidewire_nodes
    WHERE node_id = node
      AND lease_until > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
);

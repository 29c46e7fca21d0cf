-- Entities: who subscribes to which, and what became of those that are no rows of a watched table.
--
-- Delivery does not read the subscriptions: the node knows those of its own connections. They are
-- kept for people and programs who ask who looks at what, and so that SQL can subscribe a connection.

CREATE TABLE tidewire_rxdb_subscription (
    connection_id TEXT    NOT NULL,
    entity_code   TEXT    NOT NULL,
    entity_id     TEXT    NOT NULL,
    user_id       TEXT    NOT NULL DEFAULT '',
    host_id       TEXT,
    -- The node that serves the connection. Null: made by SQL, and not taken up by a node yet.
    node_id       TEXT,
    subscribed_at INTEGER NOT NULL
        DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer)),
    PRIMARY KEY (connection_id, entity_code, entity_id),
    CONSTRAINT connection_id_length CHECK (
        length(CAST(connection_id AS BLOB)) BETWEEN 1 AND 255
    ),
    CONSTRAINT entity_code_length CHECK (length(CAST(entity_code AS BLOB)) BETWEEN 1 AND 255),
    CONSTRAINT entity_id_length CHECK (length(CAST(entity_id AS BLOB)) BETWEEN 1 AND 1024),
    CONSTRAINT user_id_length CHECK (length(CAST(user_id AS BLOB)) <= 1024)
);

CREATE INDEX tidewire_rxdb_subscription_by_entity
    ON tidewire_rxdb_subscription (entity_code, entity_id);
CREATE INDEX tidewire_rxdb_subscription_by_user
    ON tidewire_rxdb_subscription (user_id, entity_code);
-- For the sweeper: the rows of nodes that live no more, and old ones of no node.
CREATE INDEX tidewire_rxdb_subscription_by_node
    ON tidewire_rxdb_subscription (node_id, subscribed_at);

-- What became of an entity, where no row's operation says so, and the id it had before, where it has
-- another.
ALTER TABLE log ADD COLUMN entity_action TEXT;
ALTER TABLE log ADD COLUMN entity_was TEXT;
ALTER TABLE tidewire_log_archive ADD COLUMN entity_action TEXT;
ALTER TABLE tidewire_log_archive ADD COLUMN entity_was TEXT;
ALTER TABLE tidewire_staging ADD COLUMN entity_action TEXT;
ALTER TABLE tidewire_staging ADD COLUMN entity_was TEXT;

-- What became of an entity after some offset.
CREATE INDEX log_entity ON log (entity_code, entity_id, c_offset) WHERE entity_code IS NOT NULL;
CREATE INDEX log_entity_was ON log (entity_code, entity_was, c_offset)
    WHERE entity_was IS NOT NULL;

-- Whether a node changes subscriptions: 1 from the beginning of its transaction to the end. What it
-- does itself is no news.
CREATE TABLE tidewire_entities_by_node (
    only_row INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    by_node  INTEGER NOT NULL
);
INSERT INTO tidewire_entities_by_node (by_node) VALUES (0);

-- Tells of a connection whose subscriptions SQL has changed. An older message that says the same gives
-- way, so that there is one of each connection, however many rows are changed and in which order.
CREATE INDEX tidewire_control_entities ON tidewire_control (body) WHERE kind = 'entities_changed';

CREATE TRIGGER tidewire_entities_added AFTER INSERT ON tidewire_rxdb_subscription
WHEN (SELECT by_node FROM tidewire_entities_by_node) = 0
BEGIN
    DELETE FROM tidewire_control
    WHERE kind = 'entities_changed' AND body = json_object('connection_id', NEW.connection_id);
    INSERT INTO tidewire_control (kind, body)
    VALUES ('entities_changed', json_object('connection_id', NEW.connection_id));
END;

CREATE TRIGGER tidewire_entities_removed AFTER DELETE ON tidewire_rxdb_subscription
WHEN (SELECT by_node FROM tidewire_entities_by_node) = 0
BEGIN
    DELETE FROM tidewire_control
    WHERE kind = 'entities_changed' AND body = json_object('connection_id', OLD.connection_id);
    INSERT INTO tidewire_control (kind, body)
    VALUES ('entities_changed', json_object('connection_id', OLD.connection_id));
END;

CREATE TRIGGER tidewire_entities_updated AFTER UPDATE ON tidewire_rxdb_subscription
WHEN (SELECT by_node FROM tidewire_entities_by_node) = 0
BEGIN
    DELETE FROM tidewire_control
    WHERE kind = 'entities_changed' AND body IN (
        json_object('connection_id', OLD.connection_id),
        json_object('connection_id', NEW.connection_id)
    );
    INSERT INTO tidewire_control (kind, body)
    VALUES ('entities_changed', json_object('connection_id', OLD.connection_id));
    INSERT INTO tidewire_control (kind, body)
    SELECT 'entities_changed', json_object('connection_id', NEW.connection_id)
    WHERE NEW.connection_id <> OLD.connection_id;
END;

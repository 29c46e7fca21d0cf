-- Nodes: the servers that serve the store's sessions, and the leases by which they are known.
--
-- One process owns the file, so there is one at a time; but a server that was killed leaves its row
-- and its sessions behind, and the next one finds them. The row of a node whose lease has ended
-- stays until the sweep has given its sessions the time they live on without it. `started_at` is
-- since when the lease has held without a break.

CREATE TABLE tidewire_nodes (
    node_id       text    PRIMARY KEY,
    url           text    NOT NULL,
    version       text    NOT NULL,
    started_at    integer NOT NULL,
    lease_until   integer NOT NULL,
    connections   integer NOT NULL,
    subscriptions integer NOT NULL,
    position      integer NOT NULL,
    lag           integer NOT NULL
);

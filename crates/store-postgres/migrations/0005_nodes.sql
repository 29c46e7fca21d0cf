-- Nodes: the servers that share the database, and the leases by which they know of each other.
--
-- A node that lives renews its lease, which the database's clock measures. The row of one whose
-- lease has ended stays until the sweep has given its sessions the time they live on without it.
-- `started_at` is since when the lease has held without a break.

CREATE TABLE tidewire.nodes (
    node_id       text   COLLATE "C" PRIMARY KEY,
    url           text   NOT NULL,
    version       text   NOT NULL,
    started_at    bigint NOT NULL,
    lease_until   bigint NOT NULL,
    connections   bigint NOT NULL,
    subscriptions bigint NOT NULL,
    position      bigint NOT NULL,
    lag           bigint NOT NULL
);

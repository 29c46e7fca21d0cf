-- Servers that use the database: how many connections they have, and for how long a lease holds.
SELECT (SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = $1 AND pid <> pg_backend_pid()),
       (SELECT coalesce(max(lease_until), 0) - tidewire.now_ms() FROM tidewire.nodes)

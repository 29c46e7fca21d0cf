-- Whether a transaction that the snapshot sees cannot be seen by everyone yet: one that ran when the
-- snapshot was taken is not seen by it.
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_snapshot_xip(pg_catalog.pg_current_snapshot()) AS running
    WHERE pg_catalog.pg_visible_in_snapshot(running, $1::text::pg_catalog.pg_snapshot)
)

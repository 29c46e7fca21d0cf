-- A transaction's number without its epoch is the one nearest to the snapshot's: those that are
-- decoded and those that run are never two thousand million apart.
SELECT widened, pg_catalog.pg_visible_in_snapshot(widened::text::pg_catalog.xid8, snapshot)
FROM (
    SELECT place, snapshot,
           upper + ((xid - (upper & 4294967295) + 2147483648) & 4294967295) - 2147483648 AS widened
    FROM (
        SELECT snapshot, pg_catalog.pg_snapshot_xmax(snapshot)::text::bigint AS upper
        FROM (SELECT pg_catalog.pg_current_snapshot() AS snapshot) AS taken
    ) AS seen
    CROSS JOIN unnest($1::bigint[]) WITH ORDINALITY AS asked (xid, place)
) AS placed
ORDER BY place

-- Partitions that were added since.
SELECT coalesce(sum(tidewire.identify_whole(table_id)), 0)::bigint
FROM tidewire.watches
WHERE (SELECT mode FROM tidewire.capture) = 'wal' AND EXISTS (
    SELECT FROM pg_catalog.pg_partition_tree(table_id)
    JOIN pg_catalog.pg_class ON pg_class.oid = relid
    WHERE relreplident <> 'f'
)

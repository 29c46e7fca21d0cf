-- The log's partitions of which nothing is measured any more, the oldest first, but that of the tip
-- and those after it: names, and whether one was left half detached.
SELECT partition.relname::text, inherits.inhdetachpending
FROM pg_inherits AS inherits
JOIN pg_class AS partition ON partition.oid = inherits.inhrelid
WHERE inherits.inhparent = 'tidewire.log'::regclass AND partition.relname ~ '^log_[0-9]{9}$'
  AND right(partition.relname, 9)::bigint
      < (SELECT c_offset FROM tidewire.log ORDER BY c_offset DESC LIMIT 1) / 10000000
  AND right(partition.relname, 9)::bigint * (10000000 / $1::bigint)
      + (10000000 / $1::bigint) <= coalesce((SELECT min(bucket) FROM tidewire.log_buckets),
                                            (SELECT up_to FROM tidewire.log_measured) / $1::bigint)
ORDER BY partition.relname
LIMIT 100

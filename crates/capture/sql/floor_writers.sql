-- The transactions that have begun to write to the staging table. A transaction's own number is
-- older than those of its subtransactions; it has 32 bits here, and is the nearest to the
-- newest that was seen to end: it may be newer than that.
WITH newest AS (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS txid)
SELECT min((SELECT txid FROM newest) + ((
    own.transactionid::text::bigint - ((SELECT txid FROM newest) & 4294967295) + 2147483648
) & 4294967295) - 2147483648)
FROM pg_locks AS staged
JOIN pg_locks AS own USING (virtualtransaction)
WHERE staged.locktype = 'relation' AND staged.relation = 'tidewire.staging'::regclass
  AND staged.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND staged.mode = 'RowExclusiveLock' AND staged.granted
  AND own.locktype = 'transactionid' AND own.mode = 'ExclusiveLock' AND own.granted
GROUP BY virtualtransaction

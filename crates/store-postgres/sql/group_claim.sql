-- Takes a partition that nobody has and that may be worked on. The row is read again after it is locked, so
-- what is returned is the newest that is committed. The clock is tidewire.now_ms(), written out.
SELECT taken.next_offset, taken.generation, pg_catalog.pg_current_xact_id()::text
FROM tidewire.consumer_offsets AS taken
WHERE taken.group_id = $1 AND taken.topic_id = 1 AND taken.partition_id = $2
  AND (taken.lease_until_ms IS NULL
       OR taken.lease_until_ms <= floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
  AND (taken.retry_at_ms IS NULL
       OR taken.retry_at_ms <= floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
  AND taken.trouble IS NULL
  AND EXISTS (
      SELECT FROM tidewire.consumer_groups AS its
      WHERE its.group_id = $1 AND its.stopped IS NULL
  )
FOR UPDATE OF taken SKIP LOCKED

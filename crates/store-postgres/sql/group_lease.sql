-- Leases a partition that nobody has, as group_claim.sql takes it.
WITH free AS (
    SELECT taken.partition_id, taken.next_offset, taken.generation
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
)
UPDATE tidewire.consumer_offsets AS leased
SET generation = leased.generation + 1, member = $6, leased_to = $5, retry_at_ms = NULL,
    lease_until_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + $7::bigint
FROM free
WHERE leased.group_id = $1 AND leased.topic_id = 1 AND leased.partition_id = free.partition_id
  AND free.next_offset = $3 AND free.generation = $4
RETURNING leased.generation

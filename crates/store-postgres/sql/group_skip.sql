-- Moves a partition that nobody has, as group_claim.sql takes it.
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
UPDATE tidewire.consumer_offsets AS moved
SET next_offset = $5, member = $6, lease_until_ms = NULL, retry_at_ms = NULL,
    moved_at_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    generation = moved.generation + (moved.lease_until_ms IS NOT NULL)::integer
FROM free
WHERE moved.group_id = $1 AND moved.topic_id = 1 AND moved.partition_id = free.partition_id
  AND free.next_offset = $3 AND free.generation = $4 AND free.next_offset < $5

-- Whatever anyone remembers of a group's partitions is worth nothing, and leases end.
UPDATE tidewire.consumer_offsets
SET generation = generation + 1, lease_until_ms = NULL,
    trouble = CASE WHEN $2::boolean THEN NULL ELSE trouble END
WHERE group_id = $1 AND topic_id = 1

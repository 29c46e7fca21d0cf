-- Says of partitions whether letters wait in them. Who remembers them without a lease looks again; a lease
-- goes on as it was.
UPDATE tidewire.consumer_offsets AS held
SET redrive = EXISTS (SELECT FROM tidewire.consumer_parked_keys AS key
                      WHERE key.group_id = $1 AND key.partition_id = held.partition_id
                        AND key.redrive_at_ms IS NOT NULL),
    generation = generation + (lease_until_ms IS NULL)::integer
WHERE held.group_id = $1 AND held.topic_id = 1 AND held.partition_id = ANY($2)

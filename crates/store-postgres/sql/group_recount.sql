-- What a partition's row says of its keys, counted anew under its lock.
UPDATE tidewire.consumer_offsets AS held
SET failing = (SELECT count(*) FROM tidewire.consumer_attempts AS failed
               WHERE failed.group_id = $1 AND failed.partition_id = $2),
    parked = (SELECT count(*) FROM tidewire.consumer_parked_keys AS key
              WHERE key.group_id = $1 AND key.partition_id = $2),
    redrive = EXISTS (SELECT FROM tidewire.consumer_parked_keys AS key
                      WHERE key.group_id = $1 AND key.partition_id = $2
                        AND key.redrive_at_ms IS NOT NULL),
    generation = generation + $3::integer
WHERE held.group_id = $1 AND held.topic_id = 1 AND held.partition_id = $2

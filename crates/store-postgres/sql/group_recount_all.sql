UPDATE tidewire.consumer_offsets AS held
SET failing = (SELECT count(*) FROM tidewire.consumer_attempts AS failed
               WHERE failed.group_id = $1 AND failed.partition_id = held.partition_id),
    parked = (SELECT count(*) FROM tidewire.consumer_parked_keys AS key
              WHERE key.group_id = $1 AND key.partition_id = held.partition_id),
    redrive = EXISTS (SELECT FROM tidewire.consumer_parked_keys AS key
                      WHERE key.group_id = $1 AND key.partition_id = held.partition_id
                        AND key.redrive_at_ms IS NOT NULL)
WHERE held.group_id = $1 AND held.topic_id = 1

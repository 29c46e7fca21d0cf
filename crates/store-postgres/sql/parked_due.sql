-- The key whose letters are to be worked off, and how often they failed since. A nack makes letters of events
-- that the partition has not passed: worked off before it has, they would come a second time from the log.
SELECT key.host_id, key.user_id, key.key_hash, coalesce(failed.attempts, 0), held.next_offset
FROM tidewire.consumer_parked_keys AS key
JOIN tidewire.consumer_offsets AS held
    ON held.group_id = key.group_id AND held.topic_id = 1 AND held.partition_id = key.partition_id
LEFT JOIN tidewire.consumer_attempts AS failed
    ON failed.group_id = key.group_id AND failed.partition_id = key.partition_id
   AND failed.key_hash = key.key_hash
WHERE key.group_id = $1 AND key.partition_id = $2 AND key.redrive_at_ms IS NOT NULL
  AND NOT EXISTS (
      SELECT FROM tidewire.consumer_dead_letters AS letter
      WHERE letter.group_id = key.group_id AND letter.key_hash = key.key_hash
        AND letter.c_offset >= held.next_offset
  )
ORDER BY key.redrive_at_ms, key.from_offset, key.key_hash
LIMIT 1

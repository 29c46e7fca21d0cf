-- The key that waits longest to be worked off again, with its partition's place and its failed attempts. A nack
-- makes letters of events that the partition has not passed: worked off before it has, they would come a second
-- time from the log.
SELECT k.host_id, k.user_id, o.next_offset, coalesce(a.attempts, 0)
FROM main.tidewire_consumer_parked_keys AS k
JOIN main.tidewire_consumer_offsets AS o
    ON o.group_id = k.group_id AND o.topic_id = 1 AND o.partition_id = k.partition_id
LEFT JOIN main.tidewire_consumer_attempts AS a
    ON a.group_id = k.group_id AND a.partition_id = k.partition_id AND a.key_hash = k.key_hash
WHERE k.group_id = ?1 AND k.partition_id = ?2 AND k.redrive_at_ms IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM main.tidewire_consumer_dead_letters AS l
                  WHERE l.group_id = k.group_id AND l.key_hash = k.key_hash AND l.c_offset >= o.next_offset)
ORDER BY k.redrive_at_ms, k.from_offset, k.key_hash
LIMIT 1

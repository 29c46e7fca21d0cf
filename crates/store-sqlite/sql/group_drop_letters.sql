-- Of a key: dead ones, all of them (?3), or one (?4), whatever it is. One whose event its partition has not
-- passed stays: the event would come again from the log.
DELETE FROM main.tidewire_consumer_dead_letters AS l
WHERE group_id = ?1 AND key_hash = ?2
  AND CASE WHEN ?4 IS NULL THEN ?3 OR state = 'dead' ELSE c_offset = ?4 END
  AND NOT EXISTS (SELECT 1 FROM main.tidewire_consumer_offsets AS o
                  WHERE o.group_id = ?1 AND o.topic_id = 1 AND o.partition_id = l.partition_id
                    AND o.next_offset <= l.c_offset)

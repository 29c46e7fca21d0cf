-- One whose event its partition has not passed stays: the event would come again from the log.
DELETE FROM tidewire.consumer_dead_letters AS letter
WHERE group_id = $1 AND ($2::bytea IS NULL OR key_hash = $2) AND ($3::bigint IS NULL OR c_offset = $3)
  AND ($4::boolean OR state = 'dead') AND partition_id = ANY($5)
  AND NOT EXISTS (
      SELECT FROM tidewire.consumer_offsets AS held
      WHERE held.group_id = $1 AND held.topic_id = 1 AND held.partition_id = letter.partition_id
        AND held.next_offset <= letter.c_offset
  )

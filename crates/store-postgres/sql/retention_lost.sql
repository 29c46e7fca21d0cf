-- Stops a group that had not read what was given up, so that nobody takes the rest for all.
UPDATE tidewire.consumer_groups SET stopped = 'events_lost', lost_to = greatest(lost_to, $2)
WHERE group_id = $1
  AND EXISTS (
      SELECT FROM tidewire.consumer_offsets AS held
      WHERE held.group_id = $1 AND held.topic_id = 1 AND held.next_offset <= $2
  )

SELECT letter.c_offset
FROM tidewire.consumer_dead_letters AS letter
JOIN tidewire.consumer_offsets AS held
    ON held.group_id = letter.group_id AND held.topic_id = 1 AND held.partition_id = letter.partition_id
WHERE letter.group_id = $1 AND letter.partition_id = $2 AND letter.state = 'dead'
  AND letter.c_offset >= held.next_offset

DELETE FROM tidewire.consumer_offsets WHERE group_id = $1 AND topic_id = 1

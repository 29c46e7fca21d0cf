DELETE FROM tidewire.consumer_dead_letters WHERE group_id = $1 AND c_offset = ANY($2)

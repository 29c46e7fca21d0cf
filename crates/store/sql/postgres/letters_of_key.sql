SELECT count(*) FROM tidewire.consumer_dead_letters WHERE group_id = $1 AND key_hash = $2

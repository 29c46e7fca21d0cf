WITH members AS (DELETE FROM tidewire.consumer_members WHERE group_id = $1),
     offsets AS (DELETE FROM tidewire.consumer_offsets WHERE group_id = $1 AND topic_id = 1),
     attempts AS (DELETE FROM tidewire.consumer_attempts WHERE group_id = $1),
     parked AS (DELETE FROM tidewire.consumer_parked_keys WHERE group_id = $1),
     letters AS (DELETE FROM tidewire.consumer_dead_letters WHERE group_id = $1)
DELETE FROM tidewire.consumer_groups WHERE group_id = $1

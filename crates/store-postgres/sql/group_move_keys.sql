-- What is kept by key goes where its host is among so many partitions.
WITH parked AS (
         UPDATE tidewire.consumer_parked_keys
         SET partition_id = tidewire.partition_of(host_id, $2::integer)
         WHERE group_id = $1
     ),
     failed AS (
         UPDATE tidewire.consumer_attempts
         SET partition_id = tidewire.partition_of(host_id, $2::integer)
         WHERE group_id = $1
     )
UPDATE tidewire.consumer_dead_letters
SET partition_id = tidewire.partition_of(host_id, $2::integer)
WHERE group_id = $1

UPDATE main.tidewire_consumer_dead_letters SET partition_id = tidewire_partition_of(host_id, ?2)
WHERE group_id = ?1

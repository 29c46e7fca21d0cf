UPDATE main.tidewire_consumer_attempts SET partition_id = tidewire_partition_of(host_id, ?2) WHERE group_id = ?1

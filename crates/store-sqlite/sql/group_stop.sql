UPDATE main.tidewire_consumer_groups SET stopped = ?2 WHERE group_id = ?1 AND stopped IS NULL

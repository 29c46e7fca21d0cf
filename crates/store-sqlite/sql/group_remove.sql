DELETE FROM main.tidewire_consumer_groups WHERE group_id = ?1

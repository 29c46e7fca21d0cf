DELETE FROM main.tidewire_consumer_members WHERE group_id = ?1

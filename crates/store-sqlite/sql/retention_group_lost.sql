UPDATE main.tidewire_consumer_groups SET lost_to = max(lost_to, ?2), stopped = 'events_lost' WHERE group_id = ?1

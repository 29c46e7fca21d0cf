SELECT group_id FROM main.tidewire_consumer_groups ORDER BY group_id

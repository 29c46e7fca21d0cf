SELECT group_id FROM tidewire_consumer_groups ORDER BY group_id

SELECT count(*) FROM tidewire_consumer_groups

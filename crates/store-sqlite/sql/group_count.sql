SELECT count(*) FROM main.tidewire_consumer_groups

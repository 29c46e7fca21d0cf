SELECT count(*) FROM tidewire.consumer_groups

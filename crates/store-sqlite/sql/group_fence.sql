-- What anyone remembers of the group's partitions is not good any more, and leases end.
UPDATE main.tidewire_consumer_offsets SET generation = generation + 1, lease_until_ms = NULL, leased_to = NULL
WHERE group_id = ?1 AND topic_id = 1

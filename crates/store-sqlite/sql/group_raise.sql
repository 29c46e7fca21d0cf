-- What is remembered of a partition is not good any more, but a lease goes on as it was.
UPDATE main.tidewire_consumer_offsets SET generation = generation + (lease_until_ms IS NULL)
WHERE group_id = ?1 AND topic_id = 1 AND partition_id = ?2

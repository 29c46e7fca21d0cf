-- What decides whether a partition can be worked on.
SELECT o.next_offset, o.generation, o.lease_until_ms, o.leased_to, o.retry_at_ms, o.trouble, g.stopped
FROM main.tidewire_consumer_offsets AS o
JOIN main.tidewire_consumer_groups AS g ON g.group_id = o.group_id
WHERE o.group_id = ?1 AND o.topic_id = 1 AND o.partition_id = ?2

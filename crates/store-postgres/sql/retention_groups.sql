-- How far the last of each group's partitions has got, and what the group reads. Rows that no group has are of
-- programs that read the whole log.
SELECT held.group_id, min(held.next_offset) - 1, coalesce(its.tables, '{}'),
       coalesce(its.streams, '{}')
FROM tidewire.consumer_offsets AS held
LEFT JOIN tidewire.consumer_groups AS its ON its.group_id = held.group_id
WHERE held.topic_id = 1
GROUP BY held.group_id, its.tables, its.streams

-- Rows that other programs made for a group before it was one: how many, and whether they are numbered as its
-- partitions are.
SELECT count(*), coalesce(min(partition_id), 0), coalesce(max(partition_id), -1)
FROM tidewire.consumer_offsets
WHERE group_id = $1 AND topic_id = 1

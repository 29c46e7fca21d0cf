-- How far the last partition of each group has got, and what it reads. Rows without a group read everything.
SELECT o.group_id, min(o.next_offset), g.tables, g.streams
FROM main.tidewire_consumer_offsets AS o
LEFT JOIN main.tidewire_consumer_groups AS g ON g.group_id = o.group_id
GROUP BY o.group_id

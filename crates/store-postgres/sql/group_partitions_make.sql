-- Partitions that begin where others ended, with a generation that none of those had.
INSERT INTO tidewire.consumer_offsets (group_id, topic_id, partition_id, next_offset, generation)
SELECT $1::varchar, 1, number, $3::bigint, $4::bigint
FROM generate_series(0, $2::integer - 1) AS number

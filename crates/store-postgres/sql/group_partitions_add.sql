-- The first generation is the time: a lease of a group of this name that is gone never fits.
INSERT INTO tidewire.consumer_offsets (group_id, topic_id, partition_id, next_offset, generation)
SELECT $1::varchar, 1, number, $3::bigint, (SELECT tidewire.now_ms())
FROM generate_series(0, $2::integer - 1) AS number

-- What was given up of living streams, and of deleted tables' streams all that is left.
SELECT stream_id, after_offset, up_to_offset, archive, false FROM main.tidewire_trims
WHERE due_at_ms <= ?1
UNION ALL
SELECT stream_id, after_offset, up_to_offset, false, true FROM main.tidewire_stream_purges
WHERE due_at_ms <= ?1 AND stream_id >= 'table/' AND stream_id < 'table0'
LIMIT 1

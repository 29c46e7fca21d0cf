-- What was given up of living streams, and of deleted tables' streams all that is left.
SELECT stream_id, after_offset, up_to_offset, archive, false FROM tidewire.trims
WHERE due_at_ms <= tidewire.now_ms()
UNION ALL
SELECT stream_id, after_offset, up_to_offset, false, true FROM tidewire.stream_purges
WHERE due_at_ms <= tidewire.now_ms() AND stream_id >= 'table/' AND stream_id < 'table0'
LIMIT 1

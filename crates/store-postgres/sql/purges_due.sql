-- Another node that purges at the same time takes other rows. Those of tables' streams are counted
-- as well, by retention.
SELECT stream_id, after_offset, up_to_offset FROM tidewire.stream_purges
WHERE due_at_ms <= tidewire.now_ms() AND NOT (stream_id >= 'table/' AND stream_id < 'table0')
LIMIT $1
FOR UPDATE SKIP LOCKED

-- Another node that purges at the same time takes other rows.
SELECT stream_id, after_offset, up_to_offset FROM tidewire.stream_purges
WHERE due_at_ms <= tidewire.now_ms()
LIMIT $1
FOR UPDATE SKIP LOCKED

SELECT stream_id, after_offset, up_to_offset FROM tidewire_stream_purges
WHERE due_at_ms <= ?1
LIMIT ?2

DELETE FROM tidewire.session_offsets AS pointer
USING unnest($1::text[], $2::text[]) AS removed (session_id, stream_id)
WHERE pointer.session_id = removed.session_id AND pointer.stream_id = removed.stream_id

INSERT INTO main.tidewire_stream_purges (stream_id, after_offset, up_to_offset, due_at_ms)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (stream_id, after_offset) DO NOTHING

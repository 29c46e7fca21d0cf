INSERT INTO main.tidewire_trims (stream_id, after_offset, up_to_offset, archive, due_at_ms)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (stream_id, after_offset) DO UPDATE SET
    up_to_offset = max(up_to_offset, excluded.up_to_offset),
    due_at_ms = excluded.due_at_ms

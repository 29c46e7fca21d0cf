-- Nothing happens to a stream that was made anew or forked meanwhile.
WITH trimmed AS (
    UPDATE tidewire.streams SET trimmed_to = $3
    WHERE stream_id = $1 AND created_offset = $2 AND trimmed_to < $3
      AND forks = 0 AND forked_from IS NULL
    RETURNING stream_id
)
INSERT INTO tidewire.trims (stream_id, after_offset, up_to_offset, archive, due_at_ms)
SELECT stream_id, $4, $3, $5, tidewire.now_ms() + $6::bigint FROM trimmed
ON CONFLICT (stream_id, after_offset) DO UPDATE SET
    up_to_offset = greatest(trims.up_to_offset, excluded.up_to_offset),
    due_at_ms = excluded.due_at_ms

DELETE FROM tidewire.control WHERE id = ANY(ARRAY(
    SELECT id FROM tidewire.control
    WHERE created_at <= tidewire.now_ms() - $1
    ORDER BY created_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))

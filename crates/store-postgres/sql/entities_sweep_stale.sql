DELETE FROM tidewire.rxdb_subscription
WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM tidewire.rxdb_subscription
    WHERE node_id IS NULL AND subscribed_at < now() - $1::bigint * interval '1 millisecond'
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))

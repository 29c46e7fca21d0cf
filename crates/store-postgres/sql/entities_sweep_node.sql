DELETE FROM tidewire.rxdb_subscription
WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM tidewire.rxdb_subscription WHERE node_id = $1 LIMIT $2 FOR UPDATE SKIP LOCKED
))

-- Whether letters were to be dropped and are still there.
SELECT EXISTS (
    SELECT FROM tidewire.consumer_dead_letters
    WHERE group_id = $1 AND ($2::bytea IS NULL OR key_hash = $2) AND ($3::bigint IS NULL OR c_offset = $3)
      AND ($4::boolean OR state = 'dead') AND partition_id = ANY($5)
)

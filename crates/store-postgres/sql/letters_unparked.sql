-- Letters of keys that are not parked, because those behind them were let go on: such a key is put beside the
-- parked ones without holding anything back, so that its letters are found.
INSERT INTO tidewire.consumer_parked_keys (
    group_id, partition_id, key_hash, host_id, user_id, from_offset, parked_at_ms
)
SELECT DISTINCT ON (letter.key_hash) letter.group_id, letter.partition_id, letter.key_hash,
       coalesce(letter.host_id, ''), coalesce(letter.user_id, ''), $3::bigint,
       floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM tidewire.consumer_dead_letters AS letter
WHERE letter.group_id = $1 AND ($2::bytea IS NULL OR letter.key_hash = $2)
  AND letter.partition_id = ANY($4)
ON CONFLICT (group_id, key_hash) DO NOTHING

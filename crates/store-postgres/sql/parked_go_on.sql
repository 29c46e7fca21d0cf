-- Keys of which no dead letter is left go on with what was parked.
UPDATE tidewire.consumer_parked_keys AS key
SET redrive_at_ms = coalesce(redrive_at_ms, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint)
WHERE key.group_id = $1 AND ($2::bytea IS NULL OR key.key_hash = $2) AND key.partition_id = ANY($3)
  AND NOT EXISTS (
      SELECT FROM tidewire.consumer_dead_letters AS letter
      WHERE letter.group_id = $1 AND letter.key_hash = key.key_hash AND letter.state = 'dead'
  )

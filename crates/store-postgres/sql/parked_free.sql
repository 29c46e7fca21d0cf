-- A key is parked for as long as it has letters.
DELETE FROM tidewire.consumer_parked_keys AS parked
WHERE group_id = $1 AND key_hash = $2
  AND NOT EXISTS (
      SELECT FROM tidewire.consumer_dead_letters AS letter
      WHERE letter.group_id = $1 AND letter.key_hash = $2
  )

-- Only what waited behind dead letters goes on by itself.
UPDATE main.tidewire_consumer_parked_keys SET redrive_at_ms = coalesce(redrive_at_ms, ?3)
WHERE group_id = ?1 AND key_hash = ?2
  AND NOT EXISTS (SELECT 1 FROM main.tidewire_consumer_dead_letters AS l
                  WHERE l.group_id = ?1 AND l.key_hash = ?2 AND l.state = 'dead')

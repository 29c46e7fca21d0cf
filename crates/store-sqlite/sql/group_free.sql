DELETE FROM main.tidewire_consumer_parked_keys
WHERE group_id = ?1 AND key_hash = ?2
  AND NOT EXISTS (SELECT 1 FROM main.tidewire_consumer_dead_letters AS l
                  WHERE l.group_id = ?1 AND l.key_hash = ?2)

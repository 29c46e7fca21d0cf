-- What a partition's row tells of its keys.
UPDATE main.tidewire_consumer_offsets
SET failing = (SELECT count(*) FROM main.tidewire_consumer_attempts AS a
               WHERE a.group_id = ?1 AND a.partition_id = ?2),
    parked = (SELECT count(*) FROM main.tidewire_consumer_parked_keys AS k
              WHERE k.group_id = ?1 AND k.partition_id = ?2),
    redrive = EXISTS (SELECT 1 FROM main.tidewire_consumer_parked_keys AS k
                      WHERE k.group_id = ?1 AND k.partition_id = ?2 AND k.redrive_at_ms IS NOT NULL)
WHERE group_id = ?1 AND topic_id = 1 AND partition_id = ?2

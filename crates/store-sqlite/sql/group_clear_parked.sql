DELETE FROM main.tidewire_consumer_parked_keys WHERE group_id = ?1 AND (?2 IS NULL OR partition_id = ?2)

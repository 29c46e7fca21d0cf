-- Keys that have letters: all, one, or that of one letter. Without a host is as with an empty one.
SELECT max(coalesce(host_id, '')), max(coalesce(user_id, '')), max(partition_id)
FROM main.tidewire_consumer_dead_letters
WHERE group_id = ?1 AND (?2 IS NULL OR key_hash = ?2) AND (?3 IS NULL OR c_offset = ?3)
GROUP BY key_hash

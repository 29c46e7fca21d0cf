SELECT partition_id, next_offset, generation, member, moved_at_ms, lease_until_ms, leased_to, retry_at_ms,
       failing, parked, redrive, trouble
FROM main.tidewire_consumer_offsets
WHERE group_id = ?1 AND topic_id = 1
ORDER BY partition_id

DELETE FROM main.tidewire_consumer_offsets WHERE group_id = ?1 AND (?2 OR topic_id = 1)

UPDATE main.tidewire_consumer_offsets SET trouble = NULL WHERE group_id = ?1 AND topic_id = 1

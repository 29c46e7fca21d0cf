INSERT INTO main.tidewire_consumer_offsets (group_id, topic_id, partition_id, next_offset, generation)
VALUES (?1, 1, ?2, ?3, ?4)

INSERT INTO main.tidewire_consumer_groups (
    group_id, total_partitions, tables, streams, max_attempts, on_dead, created_at_ms
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

INSERT INTO main.tidewire_stream_subscriber_counts (stream_id, count, updated_at) VALUES (?1, ?2, ?3)
ON CONFLICT (stream_id) DO UPDATE SET
    count = count + excluded.count, updated_at = excluded.updated_at

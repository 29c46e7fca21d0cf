INSERT INTO tidewire.stream_subscriber_counts AS counted (stream_id, count, updated_at)
SELECT added.*, $3::bigint FROM unnest($1::text[], $2::bigint[]) AS added
ON CONFLICT (stream_id) DO UPDATE SET
    count = counted.count + excluded.count, updated_at = excluded.updated_at

DELETE FROM main.tidewire_stream_subscriber_counts WHERE stream_id = ?1 AND count <= 0

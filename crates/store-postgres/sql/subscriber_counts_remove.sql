DELETE FROM tidewire.stream_subscriber_counts WHERE stream_id = ANY($1) AND count <= 0

SELECT count FROM tidewire.stream_subscriber_counts WHERE stream_id = $1

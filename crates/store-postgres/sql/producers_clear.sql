DELETE FROM tidewire.stream_producers WHERE stream_id = ANY($1)

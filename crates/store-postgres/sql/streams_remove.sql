DELETE FROM tidewire.streams WHERE stream_id = ANY($1)

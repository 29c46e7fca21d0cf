DELETE FROM tidewire.live_queries WHERE connection_id = ANY($1)

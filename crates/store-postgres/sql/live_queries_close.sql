DELETE FROM tidewire.live_queries WHERE live_id = ANY($1)

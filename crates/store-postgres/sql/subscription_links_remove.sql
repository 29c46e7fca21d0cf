DELETE FROM tidewire.subscription_links WHERE subscription_id = $1 AND stream_id = ANY($2)

DELETE FROM main.tidewire_subscription_links WHERE subscription_id = ?1 AND stream_id = ?2

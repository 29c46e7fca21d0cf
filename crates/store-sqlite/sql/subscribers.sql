SELECT count(*) FROM main.tidewire_session_subscriptions WHERE stream_id = ?1

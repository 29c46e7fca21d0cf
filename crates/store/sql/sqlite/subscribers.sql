SELECT count(*) FROM tidewire_session_subscriptions WHERE stream_id = ?1

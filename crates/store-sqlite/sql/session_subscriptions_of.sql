SELECT session_id, stream_id FROM main.tidewire_session_subscriptions WHERE session_id = ?1

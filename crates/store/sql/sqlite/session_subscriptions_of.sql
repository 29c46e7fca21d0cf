SELECT session_id, stream_id FROM tidewire_session_subscriptions WHERE session_id = ?1

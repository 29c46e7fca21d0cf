DELETE FROM main.tidewire_session_subscriptions WHERE session_id = ?1 AND stream_id = ?2

UPDATE main.tidewire_session_subscriptions SET expires_at = ?2 WHERE session_id = ?1

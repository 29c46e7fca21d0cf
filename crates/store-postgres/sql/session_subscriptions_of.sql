SELECT session_id, stream_id FROM tidewire.session_subscriptions WHERE session_id = ANY($1)

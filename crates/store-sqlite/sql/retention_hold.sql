-- How far the last of those who follow a stream has got: sessions, as text, and subscriptions.
-- Pointers into another epoch are a fresh start, and hold nothing.
SELECT (SELECT min(pointer.last_offset)
        FROM main.tidewire_session_subscriptions AS following
        JOIN main.tidewire_session_offsets AS pointer USING (session_id, stream_id)
        WHERE following.stream_id = ?1 AND substr(pointer.last_offset, 1, 5) = ?2),
       (SELECT min(acked_offset) FROM main.tidewire_subscription_links WHERE stream_id = ?1)

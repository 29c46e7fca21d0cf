-- How far the last of those who follow a stream has got: sessions, as text, and subscriptions.
-- Pointers into another epoch are a fresh start, and hold nothing.
SELECT (SELECT min(pointer.last_offset)
        FROM tidewire.session_subscriptions AS following
        JOIN tidewire.session_offsets AS pointer USING (session_id, stream_id)
        WHERE following.stream_id = $1 AND left(pointer.last_offset, 5) = $2),
       (SELECT min(acked_offset) FROM tidewire.subscription_links WHERE stream_id = $1)

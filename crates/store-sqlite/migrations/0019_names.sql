-- A name is one stream's in a session: under a second one, a connection would lose one of the two.
--
-- Of streams that have the same name in a session, the one that was subscribed last keeps it, and the
-- session follows the others no longer. Its revision rises, so that its connections are told.

CREATE TABLE tidewire_names_lost AS
SELECT session_id, stream_id FROM tidewire_session_subscriptions AS lost
WHERE EXISTS (
    SELECT 1 FROM tidewire_session_subscriptions AS kept
    WHERE kept.session_id = lost.session_id AND kept.query_id = lost.query_id
      AND (kept.subscription_epoch, kept.stream_id) > (lost.subscription_epoch, lost.stream_id)
);

DELETE FROM tidewire_session_subscriptions
WHERE (session_id, stream_id) IN (SELECT session_id, stream_id FROM tidewire_names_lost);
DELETE FROM tidewire_session_offsets
WHERE (session_id, stream_id) IN (SELECT session_id, stream_id FROM tidewire_names_lost);
UPDATE tidewire_stream_subscriber_counts AS counted
SET count = count - (SELECT count(*) FROM tidewire_names_lost AS lost WHERE lost.stream_id = counted.stream_id)
WHERE stream_id IN (SELECT stream_id FROM tidewire_names_lost);
DELETE FROM tidewire_stream_subscriber_counts WHERE count <= 0;
UPDATE tidewire_sessions SET revision = revision + 1
WHERE session_id IN (SELECT session_id FROM tidewire_names_lost);

DROP TABLE tidewire_names_lost;

CREATE UNIQUE INDEX tidewire_session_subscriptions_by_name
    ON tidewire_session_subscriptions (session_id, query_id);

-- A name is one stream's in a session: under a second one, a connection would lose one of the two.
--
-- Of streams that have the same name in a session, the one that was subscribed last keeps it, and the
-- session follows the others no longer. Its revision rises, so that its connections are told.

-- Whoever changes sessions holds this lock ('tide' + 4): no node gives a name twice meanwhile.
SELECT pg_advisory_xact_lock(x'7469646500000004'::bigint);

CREATE TABLE tidewire.names_lost AS
SELECT session_id, stream_id FROM tidewire.session_subscriptions AS lost
WHERE EXISTS (
    SELECT FROM tidewire.session_subscriptions AS kept
    WHERE kept.session_id = lost.session_id AND kept.query_id = lost.query_id
      AND (kept.subscription_epoch, kept.stream_id) > (lost.subscription_epoch, lost.stream_id)
);

DELETE FROM tidewire.session_subscriptions
WHERE (session_id, stream_id) IN (SELECT session_id, stream_id FROM tidewire.names_lost);
DELETE FROM tidewire.session_offsets
WHERE (session_id, stream_id) IN (SELECT session_id, stream_id FROM tidewire.names_lost);
UPDATE tidewire.stream_subscriber_counts AS counted
SET count = count - (SELECT count(*) FROM tidewire.names_lost AS lost WHERE lost.stream_id = counted.stream_id)
WHERE stream_id IN (SELECT stream_id FROM tidewire.names_lost);
DELETE FROM tidewire.stream_subscriber_counts WHERE count <= 0;
UPDATE tidewire.sessions SET revision = revision + 1
WHERE session_id IN (SELECT session_id FROM tidewire.names_lost);

DROP TABLE tidewire.names_lost;

-- Names compare as bytes do, as ids do: no update of the system's locales changes what the index holds.
ALTER TABLE tidewire.session_subscriptions ALTER COLUMN query_id TYPE text COLLATE "C";
CREATE UNIQUE INDEX session_subscriptions_by_name ON tidewire.session_subscriptions (session_id, query_id);

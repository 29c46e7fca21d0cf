-- Some streams in order that are followed or have a count, with the count. Each step is a probe of
-- two indexes, however many follow a stream.
WITH RECURSIVE followed (stream_id) AS (
    SELECT (
        SELECT min(stream_id) FROM (
            SELECT min(stream_id) AS stream_id FROM main.tidewire_session_subscriptions
            WHERE stream_id > ?1
            UNION ALL
            SELECT min(stream_id) FROM main.tidewire_stream_subscriber_counts
            WHERE stream_id > ?1
        )
    )
    UNION ALL
    SELECT (
        SELECT min(stream_id) FROM (
            SELECT min(stream_id) AS stream_id FROM main.tidewire_session_subscriptions AS of
            WHERE of.stream_id > followed.stream_id
            UNION ALL
            SELECT min(stream_id) FROM main.tidewire_stream_subscriber_counts AS of
            WHERE of.stream_id > followed.stream_id
        )
    )
    FROM followed
    WHERE followed.stream_id IS NOT NULL
    LIMIT ?2
)
SELECT stream_id,
       (SELECT count FROM main.tidewire_stream_subscriber_counts AS counted
        WHERE counted.stream_id = followed.stream_id)
FROM followed
WHERE stream_id IS NOT NULL

-- Some streams in order that are followed or have a count, with the count. Each step is a probe of
-- two indexes, however many follow a stream.
WITH RECURSIVE followed (stream_id, number) AS (
    SELECT least(
               (SELECT stream_id FROM tidewire.session_subscriptions
                WHERE stream_id > $1 ORDER BY stream_id LIMIT 1),
               (SELECT stream_id FROM tidewire.stream_subscriber_counts
                WHERE stream_id > $1 ORDER BY stream_id LIMIT 1)
           ), 1::bigint
    UNION ALL
    SELECT least(
               (SELECT stream_id FROM tidewire.session_subscriptions AS of
                WHERE of.stream_id > followed.stream_id ORDER BY stream_id LIMIT 1),
               (SELECT stream_id FROM tidewire.stream_subscriber_counts AS of
                WHERE of.stream_id > followed.stream_id ORDER BY stream_id LIMIT 1)
           ), number + 1
    FROM followed
    WHERE followed.stream_id IS NOT NULL AND number < $2
)
SELECT stream_id,
       (SELECT count FROM tidewire.stream_subscriber_counts AS counted
        WHERE counted.stream_id = followed.stream_id)
FROM followed
WHERE stream_id IS NOT NULL
ORDER BY number

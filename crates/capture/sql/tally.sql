-- Counts what came into the log since it was last counted. Count and place change together, so that
-- nothing is counted twice, and nothing left out, whoever counted last. Each table is counted by itself:
-- joined, the planner may begin with the whole log.
UPDATE tidewire.watches SET events = watches.events + counted.events, last_offset = counted.last,
    counted_before = counted.before
FROM (
    SELECT watch.table_id, watch.last_offset AS before, came.events, came.last
    FROM tidewire.watches AS watch
    JOIN tidewire.streams ON streams.stream_id = watch.stream_id
    CROSS JOIN LATERAL (
        SELECT count(*) AS events, max(c_offset) AS last
        FROM tidewire.log
        WHERE log.stream_id = watch.stream_id AND control IS NULL
          AND c_offset > greatest(watch.last_offset, streams.created_offset)
    ) AS came
    WHERE came.events > 0
) AS counted
WHERE watches.table_id = counted.table_id AND watches.last_offset IS NOT DISTINCT FROM counted.before

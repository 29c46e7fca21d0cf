-- Counts what came into the log since it was last counted. Count and place change together, so that
-- nothing is counted twice, and nothing left out, whoever counted last.
UPDATE tidewire.watches SET events = watches.events + counted.events, last_offset = counted.last
FROM (
    SELECT watch.table_id, watch.last_offset AS before, count(*) AS events, max(c_offset) AS last
    FROM tidewire.watches AS watch
    JOIN tidewire.streams ON streams.stream_id = watch.stream_id
    JOIN tidewire.log ON log.stream_id = watch.stream_id AND control IS NULL
        AND c_offset > greatest(watch.last_offset, streams.created_offset)
    GROUP BY watch.table_id
) AS counted
WHERE watches.table_id = counted.table_id AND watches.last_offset IS NOT DISTINCT FROM counted.before

-- Sizes are those on disk, so that nothing is fetched to be measured. (OFFSET 0: they are taken before
-- the events are sorted, not after.)
WITH measured AS (
    SELECT c_offset / $3::bigint AS bucket,
           count(*) FILTER (WHERE captured) AS events,
           coalesce(sum(bytes) FILTER (WHERE captured), 0)::bigint AS bytes,
           (extract(epoch FROM max(created_at)) * 1000)::bigint AS newest_ms
    FROM (
        SELECT c_offset, created_at,
               control IS NULL AND stream_id >= 'table/' AND stream_id < 'table0' AS captured,
               coalesce(pg_column_size(before_data), 0) + coalesce(pg_column_size(after_data), 0)
                   + $4::bigint AS bytes
        FROM tidewire.log
        WHERE c_offset > $1 AND c_offset <= $2
        OFFSET 0
    ) AS event
    GROUP BY 1
), kept AS (
    INSERT INTO tidewire.log_buckets AS known (bucket, events, bytes, newest_ms)
    SELECT bucket, events, bytes, newest_ms FROM measured
    ON CONFLICT (bucket) DO UPDATE SET
        events = known.events + excluded.events,
        bytes = known.bytes + excluded.bytes,
        newest_ms = greatest(known.newest_ms, excluded.newest_ms)
)
UPDATE tidewire.log_measured SET
    up_to = $2,
    events = events + coalesce((SELECT sum(measured.events) FROM measured), 0)::bigint,
    bytes = bytes + coalesce((SELECT sum(measured.bytes) FROM measured), 0)::bigint
WHERE up_to = $1

-- The first event made at or after a time. Ranges are searched by what was measured of them (?2 offsets
-- each): from the end of the last one before the first that has an event as new; without any, from where
-- nothing was measured yet.
WITH newer AS (SELECT min(bucket) AS bucket FROM main.tidewire_log_buckets WHERE newest_ms >= ?1),
from_here (c_offset) AS (
    SELECT CASE WHEN newer.bucket IS NULL THEN (SELECT up_to FROM main.tidewire_log_measured)
           ELSE coalesce((SELECT (max(older.bucket) + 1) * ?2 FROM main.tidewire_log_buckets AS older
                          WHERE older.bucket < newer.bucket), 0) END
    FROM newer
)
SELECT c_offset FROM main.log
WHERE c_offset >= (SELECT c_offset FROM from_here) AND created_at >= ?1
ORDER BY c_offset
LIMIT 1

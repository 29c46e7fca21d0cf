-- From where on to look for the first event as young as this. Measured stretches of the log are told by their
-- newest event, and what is not measured yet comes after them; but where retention has finished with a
-- stretch nothing is known of what it left there, and all is looked at.
SELECT CASE WHEN known.count < coalesce(young.bucket, measured.up_to / $2::bigint + 1) THEN 0
            ELSE coalesce(young.bucket * $2::bigint, measured.up_to) END
FROM tidewire.log_measured AS measured
LEFT JOIN LATERAL (
    SELECT bucket FROM tidewire.log_buckets WHERE newest_ms >= $1 ORDER BY bucket LIMIT 1
) AS young ON true
CROSS JOIN LATERAL (
    SELECT count(*) FROM tidewire.log_buckets
    WHERE bucket < coalesce(young.bucket, measured.up_to / $2::bigint + 1)
) AS known

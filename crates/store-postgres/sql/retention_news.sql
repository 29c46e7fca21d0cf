-- Control events, which nobody reads any more, and the bucket that they are of.
WITH removed AS (
    DELETE FROM tidewire.log
    WHERE c_offset > $1 AND c_offset <= $2 AND control IS NOT NULL
      AND c_offset < (SELECT c_offset FROM tidewire.log ORDER BY c_offset DESC LIMIT 1)
)
DELETE FROM tidewire.log_buckets WHERE bucket = $3 AND events = 0

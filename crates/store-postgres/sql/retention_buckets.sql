SELECT bucket, events, bytes, newest_ms FROM tidewire.log_buckets
WHERE bucket > $1
ORDER BY bucket
LIMIT $2

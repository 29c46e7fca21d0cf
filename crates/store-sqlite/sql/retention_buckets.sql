SELECT bucket, events, bytes, newest_ms FROM main.tidewire_log_buckets
WHERE bucket > ?1
ORDER BY bucket
LIMIT ?2

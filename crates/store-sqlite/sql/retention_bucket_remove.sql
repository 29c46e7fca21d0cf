DELETE FROM main.tidewire_log_buckets WHERE bucket = ?1 AND events = 0

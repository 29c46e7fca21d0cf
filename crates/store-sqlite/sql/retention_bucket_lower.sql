UPDATE main.tidewire_log_buckets SET events = max(events - ?2, 0), bytes = max(bytes - ?3, 0)
WHERE bucket = ?1

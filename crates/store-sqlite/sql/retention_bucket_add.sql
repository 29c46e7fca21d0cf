INSERT INTO main.tidewire_log_buckets (bucket, events, bytes, newest_ms) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (bucket) DO UPDATE SET
    events = events + excluded.events,
    bytes = bytes + excluded.bytes,
    newest_ms = max(newest_ms, excluded.newest_ms)

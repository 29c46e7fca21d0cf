SELECT table_name, repaired_why, tidewire.to_ms(repaired_at), repaired_events
FROM tidewire.watches
WHERE repaired_at IS NOT NULL
ORDER BY repaired_at DESC
LIMIT 100

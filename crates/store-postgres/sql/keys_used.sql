-- Rows that someone else holds are passed over: nodes do not wait for each other to note the same use.
UPDATE tidewire.api_keys SET last_used_at = clock_timestamp()
WHERE id = ANY(ARRAY(
    SELECT id FROM tidewire.api_keys WHERE id = ANY($1) FOR NO KEY UPDATE SKIP LOCKED
))

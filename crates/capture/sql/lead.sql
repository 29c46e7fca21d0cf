UPDATE tidewire.capture
SET generation = generation + 1, leader = $1, elected_at = clock_timestamp(),
    reason = CASE WHEN mode = 'outbox' THEN $2 ELSE reason END
RETURNING generation

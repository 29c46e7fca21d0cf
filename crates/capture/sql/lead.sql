UPDATE tidewire.capture
SET generation = generation + 1, leader = $1, elected_at = clock_timestamp()
RETURNING generation

-- Nobody leads. Writers are not to wake anyone either: the next leader looks for itself.
WITH resigned AS (
    UPDATE tidewire.capture SET leader = NULL WHERE generation = $1 RETURNING only_row
)
SELECT setval('tidewire.sequencer_sleep', 1) FROM resigned

-- Durability is not needed, and would cost a flush.
SELECT set_config('synchronous_commit', 'off', true), setval('tidewire.sequencer_sleep', $1::bigint)

-- A node that is just being renewed is left alone; one that is renewed later waits, and finds that
-- its lease had ended.
SELECT node_id FROM tidewire.nodes WHERE lease_until <= $1 FOR UPDATE SKIP LOCKED

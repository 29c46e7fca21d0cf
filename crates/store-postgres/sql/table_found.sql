-- The table that a name stands for, or the one that is watched under it.
SELECT coalesce(tidewire.find_table($1), (SELECT table_id FROM tidewire.watches WHERE table_name = $1))

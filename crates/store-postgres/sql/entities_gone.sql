DELETE FROM tidewire.rxdb_subscription WHERE connection_id = ANY($1)

DELETE FROM tidewire.staging WHERE id = ANY($1)

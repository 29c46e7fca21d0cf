UPDATE tidewire.capture SET repairing = coalesce(repairing, $1)

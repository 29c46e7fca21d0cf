UPDATE tidewire.consumer_parked_keys SET redrive_at_ms = NULL WHERE group_id = $1 AND key_hash = $2

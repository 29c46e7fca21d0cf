SELECT tidewire.lock_watched($1::oid)

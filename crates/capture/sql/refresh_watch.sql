SELECT tidewire.refresh_watch($1::oid)

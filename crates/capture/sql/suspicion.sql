SELECT tidewire.suspicion($1::oid)

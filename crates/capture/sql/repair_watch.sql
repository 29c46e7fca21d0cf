SELECT why, staged, (SELECT table_name FROM tidewire.watches WHERE table_id = $1::oid)
FROM tidewire.repair_watch($1::oid, $2)

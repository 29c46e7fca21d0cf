DELETE FROM tidewire.wal_places WHERE id < $1

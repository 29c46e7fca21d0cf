SELECT id, lsn, commit_lsn, changes FROM tidewire.wal_places ORDER BY id DESC LIMIT 1

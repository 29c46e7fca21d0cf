INSERT INTO tidewire.wal_places (id, lsn, commit_lsn, changes) VALUES ($1, $2, $3, $4)

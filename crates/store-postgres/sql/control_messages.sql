SELECT id, kind, body::text FROM tidewire.control WHERE id = ANY($1) ORDER BY id

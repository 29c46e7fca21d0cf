SELECT id, c_offset, host_id, user_id, document::text FROM jobs
ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED

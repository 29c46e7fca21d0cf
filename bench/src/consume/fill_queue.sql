-- A job for each event of the log.
INSERT INTO jobs (c_offset, host_id, user_id, document)
SELECT c_offset, host_id, user_id, after_data FROM tidewire.log
WHERE c_offset <= $1 ORDER BY c_offset

-- What is about streams is handed to nobody, so nobody begins with it.
SELECT c_offset FROM tidewire.log
WHERE c_offset >= $1 AND control IS NULL AND (extract(epoch FROM created_at) * 1000)::bigint >= $2
ORDER BY c_offset
LIMIT 1

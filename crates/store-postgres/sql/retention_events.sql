SELECT c_offset, (extract(epoch FROM created_at) * 1000)::bigint FROM tidewire.log
WHERE stream_id = $1 AND control IS NULL AND c_offset > $2 AND c_offset <= $3
ORDER BY c_offset
LIMIT $4

SELECT c_offset FROM tidewire.log
WHERE stream_id = $1 AND control IS NULL AND c_offset > $2 AND c_offset <= $3
ORDER BY c_offset DESC
LIMIT 1

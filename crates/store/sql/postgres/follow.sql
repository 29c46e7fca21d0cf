SELECT c_offset, stream_id, control, (extract(epoch FROM created_at) * 1000)::bigint,
       octet_length(payload)
FROM tidewire.log
WHERE c_offset > $1
ORDER BY c_offset
LIMIT $2

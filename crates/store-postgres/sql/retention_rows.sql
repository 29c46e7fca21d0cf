SELECT c_offset,
       coalesce(pg_column_size(before_data), 0) + coalesce(pg_column_size(after_data), 0)
           + $3::bigint,
       (extract(epoch FROM created_at) * 1000)::bigint
FROM tidewire.log
WHERE c_offset > $1 AND c_offset <= $2 AND control IS NULL
  AND stream_id >= 'table/' AND stream_id < 'table0'
ORDER BY c_offset

-- The unary plus keeps the range of names from being searched by its index: that of offsets is meant.
SELECT c_offset,
       coalesce(octet_length(before_data), 0) + coalesce(octet_length(after_data), 0) + ?3,
       created_at
FROM main.log
WHERE c_offset > ?1 AND c_offset <= ?2 AND control IS NULL
  AND +stream_id >= 'table/' AND +stream_id < 'table0'
ORDER BY c_offset

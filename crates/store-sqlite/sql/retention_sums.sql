-- The unary plus keeps the range of names from being searched by its index: that of offsets is meant.
SELECT c_offset / ?3,
       sum(control IS NULL AND +stream_id >= 'table/' AND +stream_id < 'table0'),
       sum(CASE WHEN control IS NULL AND +stream_id >= 'table/' AND +stream_id < 'table0'
                THEN coalesce(octet_length(before_data), 0) + coalesce(octet_length(after_data), 0)
                     + ?4
                ELSE 0 END),
       max(created_at)
FROM main.log
WHERE c_offset > ?1 AND c_offset <= ?2
GROUP BY 1

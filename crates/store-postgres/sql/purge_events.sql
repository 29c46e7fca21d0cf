-- The outer bounds repeat the inner ones so that only the partitions between them are visited.
DELETE FROM tidewire.log
WHERE c_offset > $2 AND c_offset <= $3 AND c_offset IN (
    SELECT c_offset FROM tidewire.log
    WHERE stream_id = $1 AND control IS NULL AND c_offset > $2 AND c_offset <= $3
      AND c_offset < (SELECT c_offset FROM tidewire.log ORDER BY c_offset DESC LIMIT 1)
    LIMIT $4
)

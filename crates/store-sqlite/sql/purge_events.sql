DELETE FROM main.log WHERE c_offset IN (
    SELECT c_offset FROM main.log
    WHERE stream_id = ?1 AND control IS NULL AND c_offset > ?2 AND c_offset <= ?3
      AND c_offset < (SELECT max(c_offset) FROM main.log)
    LIMIT ?4
)

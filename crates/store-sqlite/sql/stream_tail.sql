SELECT max(c_offset) FROM main.log WHERE stream_id = ?1 AND control IS NULL AND c_offset > ?2

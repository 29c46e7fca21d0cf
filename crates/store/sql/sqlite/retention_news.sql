-- Control events, which nobody reads any more.
DELETE FROM log
WHERE c_offset > ?1 AND c_offset <= ?2 AND control IS NOT NULL
  AND c_offset < (SELECT max(c_offset) FROM log)

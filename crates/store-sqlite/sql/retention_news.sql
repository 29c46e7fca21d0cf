-- Control events, which nobody reads any more.
DELETE FROM main.log
WHERE c_offset > ?1 AND c_offset <= ?2 AND control IS NOT NULL
  AND c_offset < (SELECT max(c_offset) FROM main.log)

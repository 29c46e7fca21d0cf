SELECT found.entity_id, found.row_data, found.copies - coalesce(known.copies, 0)
FROM main.tidewire_found_rows AS found
LEFT JOIN main.tidewire_known_rows AS known
    ON known.table_name = ?1 AND known.entity_id = found.entity_id
   AND known.row_data = found.row_data
WHERE found.copies > coalesce(known.copies, 0)
ORDER BY found.entity_id, found.row_data
LIMIT ?2

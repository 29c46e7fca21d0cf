SELECT known.entity_id, known.row_data, known.copies - coalesce(found.copies, 0)
FROM main.tidewire_known_rows AS known
LEFT JOIN main.tidewire_found_rows AS found USING (entity_id, row_data)
WHERE known.table_name = ?1 AND known.copies > coalesce(found.copies, 0)
ORDER BY known.entity_id, known.row_data
LIMIT ?2

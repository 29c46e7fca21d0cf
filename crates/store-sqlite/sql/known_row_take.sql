UPDATE main.tidewire_known_rows SET copies = copies - 1
WHERE table_name = ?1 AND entity_id = ?2 AND row_data = ?3

INSERT INTO main.tidewire_known_rows (table_name, entity_id, row_data, copies) VALUES (?1, ?2, ?3, 1)
ON CONFLICT (table_name, entity_id, row_data) DO UPDATE SET copies = copies + 1

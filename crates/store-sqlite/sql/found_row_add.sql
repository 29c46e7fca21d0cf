INSERT INTO main.tidewire_found_rows (entity_id, row_data, copies) VALUES (?1, ?2, 1)
ON CONFLICT (entity_id, row_data) DO UPDATE SET copies = copies + 1

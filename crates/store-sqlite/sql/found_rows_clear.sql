DELETE FROM main.tidewire_found_rows

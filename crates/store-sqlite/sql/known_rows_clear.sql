DELETE FROM main.tidewire_known_rows WHERE table_name = ?1

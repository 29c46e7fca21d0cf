DELETE FROM main.tidewire_watches WHERE table_name = ?1

DELETE FROM main.tidewire_live_queries WHERE connection_id = ?1

DELETE FROM main.tidewire_live_queries WHERE live_id = ?1

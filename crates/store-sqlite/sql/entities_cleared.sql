DELETE FROM main.tidewire_rxdb_subscription WHERE connection_id = ?1 AND entity_code = ?2

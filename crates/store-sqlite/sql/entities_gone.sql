DELETE FROM main.tidewire_rxdb_subscription WHERE connection_id = ?1

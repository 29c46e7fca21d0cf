UPDATE main.tidewire_log_epoch SET epoch = ?1

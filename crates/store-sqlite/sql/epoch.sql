SELECT epoch FROM main.tidewire_log_epoch

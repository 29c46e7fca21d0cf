SELECT epoch FROM tidewire_log_epoch

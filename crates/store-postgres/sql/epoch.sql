SELECT epoch FROM tidewire.log_epoch

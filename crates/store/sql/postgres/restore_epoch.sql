UPDATE tidewire.log_epoch SET epoch = $1

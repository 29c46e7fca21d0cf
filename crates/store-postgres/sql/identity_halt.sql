UPDATE tidewire.log_epoch SET halted = $1 WHERE halted IS NULL

UPDATE tidewire.log_epoch SET epoch = $1, timeline = $2, system_identifier = $3, halted = NULL

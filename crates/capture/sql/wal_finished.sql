UPDATE tidewire.capture SET finishing = false, repairing = NULL, staged_until = NULL

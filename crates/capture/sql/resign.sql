UPDATE tidewire.capture SET leader = NULL WHERE generation = $1

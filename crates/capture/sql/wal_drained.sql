UPDATE tidewire.capture SET staged_until = NULL WHERE staged_until IS NOT NULL

SELECT tidewire.ensure_log_partition($1)

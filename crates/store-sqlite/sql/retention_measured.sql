SELECT up_to, events, bytes FROM main.tidewire_log_measured

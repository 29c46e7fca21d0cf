SELECT up_to, events, bytes FROM tidewire_log_measured

SELECT up_to, events, bytes FROM tidewire.log_measured

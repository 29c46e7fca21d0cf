UPDATE main.tidewire_log_measured SET events = max(events - ?1, 0), bytes = max(bytes - ?2, 0)

UPDATE main.tidewire_log_measured SET up_to = ?2, events = events + ?3, bytes = bytes + ?4
WHERE up_to = ?1

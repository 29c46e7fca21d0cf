SELECT tidewire.stale_watches()

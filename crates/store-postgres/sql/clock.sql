SELECT tidewire.now_ms()

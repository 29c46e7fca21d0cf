SELECT min(position) FROM tidewire.nodes WHERE lease_until > tidewire.now_ms()

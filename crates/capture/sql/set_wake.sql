SELECT tidewire.set_wake($1)

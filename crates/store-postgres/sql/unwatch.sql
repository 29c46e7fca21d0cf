SELECT tidewire.unwatch($1)

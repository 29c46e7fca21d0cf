SELECT tidewire.mark()

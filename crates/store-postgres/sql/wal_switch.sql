SELECT tidewire.switch_capture($1, $2, $3)

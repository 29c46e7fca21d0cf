SELECT tidewire.is_json($1)

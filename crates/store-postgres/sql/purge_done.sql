DELETE FROM tidewire.stream_purges WHERE stream_id = $1 AND after_offset = $2

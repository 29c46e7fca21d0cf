UPDATE tidewire.stream_purges SET after_offset = $3 WHERE stream_id = $1 AND after_offset = $2

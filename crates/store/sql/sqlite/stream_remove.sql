DELETE FROM tidewire_streams WHERE stream_id = ?1

DELETE FROM tidewire_watches WHERE table_name = ?1

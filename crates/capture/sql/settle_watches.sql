-- Whatever this snapshot sees of a table was captured, if the snapshot also sees that capture was in place.
UPDATE tidewire.watches SET settled = pg_current_snapshot() WHERE tidewire.is_armed(table_id)

SELECT table_name, source_table, key_columns, entity_code, host_column, user_column, shape, events,
       last_offset, created_at, stream_id, key_given
FROM main.tidewire_watches
ORDER BY table_name

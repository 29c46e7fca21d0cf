SELECT table_id, table_name, stream_id, key_columns, entity_code, host_column, user_column
FROM tidewire.watches

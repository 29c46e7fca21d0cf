INSERT INTO main.tidewire_watches (
    table_name, stream_id, source_table, key_columns, entity_code, host_column, user_column, shape,
    created_at, key_given
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, coalesce(?9, 0), ?10)
ON CONFLICT (table_name) DO UPDATE SET
    source_table = excluded.source_table,
    key_columns = excluded.key_columns,
    key_given = excluded.key_given,
    entity_code = excluded.entity_code,
    host_column = excluded.host_column,
    user_column = excluded.user_column,
    shape = excluded.shape

-- After an outage there may be any number of staged rows: so many are counted.
WITH waiting AS (
    SELECT stream_id, count(*) AS rows, min(created_at) AS since
    FROM (SELECT stream_id, created_at FROM tidewire.staging ORDER BY id LIMIT 100000) AS first_ones
    GROUP BY stream_id
)
SELECT table_name, watches.stream_id, key_columns, entity_code, host_column, user_column,
       tidewire.to_ms(created_at), events, last_offset, coalesce(rows, 0),
       coalesce(tidewire.now_ms() - tidewire.to_ms(since), 0), table_id = CASE WHEN $1 <> '' THEN tidewire.find_table($1) END,
       tidewire.heirs(table_id)
FROM tidewire.watches
LEFT JOIN waiting ON waiting.stream_id = watches.stream_id
ORDER BY table_name

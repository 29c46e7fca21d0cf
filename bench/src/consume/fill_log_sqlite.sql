-- The same changes as fill_log.sql.
WITH RECURSIVE log_rows (c_offset) AS (
    SELECT ?1 UNION ALL SELECT c_offset + 1 FROM log_rows WHERE c_offset < ?2
), keyed (c_offset, source, key) AS (
    SELECT c_offset, (c_offset - 1) / 3, (c_offset - 1) / 3 * 7919 % 2000 FROM log_rows
)
INSERT INTO log (
    c_offset, stream_id, append_id, host_id, user_id, table_name, operation, entity_id, after_data,
    txid, tx_last, created_at
)
SELECT c_offset, 'table/orders', c_offset, 'host-' || (key % 200), 'user-' || key, 'orders', 'INSERT',
       CAST(c_offset AS TEXT),
       json_object(
           'id', c_offset, 'customer', key, 'status', 'open', 'note', printf('%.120c', 'x')
       ),
       1000 + source, c_offset % 3 = 0, ?3
FROM keyed

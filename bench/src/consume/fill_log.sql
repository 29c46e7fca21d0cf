-- Changes of a table: transactions of three, each of one user; 200 hosts with ten users each, in no order.
INSERT INTO tidewire.log (
    c_offset, stream_id, append_id, host_id, user_id, table_name, operation, entity_id, after_data,
    txid, tx_last
)
SELECT c_offset, 'table/orders', c_offset, 'host-' || key % 200, 'user-' || key, 'orders', 'INSERT',
       c_offset::text,
       jsonb_build_object(
           'id', c_offset, 'customer', key, 'status', 'open', 'note', repeat('x', 120)
       ),
       1000 + transaction, c_offset % 3 = 0
FROM generate_series($1::bigint, $2::bigint) AS log (c_offset),
     LATERAL (SELECT (c_offset - 1) / 3) AS source (transaction),
     LATERAL (SELECT transaction * 7919 % 2000) AS owner (key)

SELECT l.c_offset, l.append_id, l.stream_id, l.host_id, l.user_id, l.txid, l.tx_last, l.created_at,
       l.trace_context, l.content_type, l.payload, l.operation, l.table_name, l.entity_code, l.entity_id,
       l.before_data, l.after_data
FROM main.tidewire_consumer_dead_letters AS l INDEXED BY tidewire_consumer_dead_letters_by_key
WHERE l.group_id = ?1 AND l.key_hash = ?2
ORDER BY l.c_offset

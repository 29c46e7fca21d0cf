SELECT l.c_offset, l.append_id, l.stream_id, l.host_id, l.user_id, l.txid, l.tx_last, l.created_at,
       l.trace_context, l.content_type, l.payload, l.operation, l.table_name, l.entity_code, l.entity_id,
       l.before_data, l.after_data, l.error, l.attempts, l.partition_id, l.state,
       l.died_at_ms, k.redrive_at_ms IS NOT NULL
FROM main.tidewire_consumer_dead_letters AS l
LEFT JOIN main.tidewire_consumer_parked_keys AS k ON k.group_id = l.group_id AND k.key_hash = l.key_hash
WHERE l.group_id = ?1 AND l.c_offset > ?2 AND (?3 IS NULL OR l.state = ?3)
ORDER BY l.c_offset
LIMIT ?4

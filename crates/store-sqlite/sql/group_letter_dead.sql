-- A letter that was parked before, and died when its turn came, is dead from then on.
INSERT INTO main.tidewire_consumer_dead_letters (
    group_id, c_offset, partition_id, key_hash, state, error, attempts, died_at_ms, stream_id, append_id,
    host_id, user_id, table_name, operation, entity_code, entity_id, before_data, after_data, payload,
    content_type, txid, tx_last, trace_context, created_at
) VALUES (
    ?1, ?2, ?3, ?4, 'dead', ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
    ?22, ?23
)
ON CONFLICT (group_id, c_offset) DO UPDATE SET
    state = excluded.state, error = excluded.error, attempts = excluded.attempts,
    died_at_ms = excluded.died_at_ms

-- Gives up rows that have failed often enough.
WITH dead AS (
    DELETE FROM tidewire.staging WHERE id = ANY($1) AND attempts >= $2::integer RETURNING *
)
INSERT INTO tidewire.dead_letters (
    id, stream_id, append_id, host_id, user_id, table_name, operation, entity_code, entity_id,
    before_data, after_data, payload, content_type, txid, trace_context, created_at, error_message,
    attempts, control, retry_at, statement, entity_was, entity_action
)
SELECT id, stream_id, append_id, host_id, user_id, table_name, operation, entity_code, entity_id,
       before_data, after_data, payload, content_type, txid, trace_context, created_at, error_message,
       attempts, control, NULL, statement, entity_was, entity_action
FROM dead

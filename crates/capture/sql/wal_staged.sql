SELECT id, stream_id, control, payload, content_type, host_id, user_id, trace_context,
       entity_code, entity_id, entity_action, operation IS NOT NULL
FROM tidewire.staging
WHERE id = ANY($1)
FOR UPDATE

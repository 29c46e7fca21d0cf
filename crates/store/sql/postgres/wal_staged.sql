SELECT id, stream_id, control, payload, content_type, host_id, user_id, trace_context
FROM tidewire.staging
WHERE id = ANY($1) AND operation IS NULL
FOR UPDATE

SELECT user_id, trace_context, content_type, payload, operation, table_name, entity_code, entity_id,
       before_data, after_data
FROM main.log
WHERE c_offset = ?1

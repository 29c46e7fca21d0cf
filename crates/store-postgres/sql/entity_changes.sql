-- For each id the first changes by the index, so that an entity that changes often does not hide the
-- others; then the first of all. The conditions on lengths are those of the indexes.
SELECT c_offset, entity_code, entity_id, entity_was, operation, entity_action, host_id, stream_id
FROM (
    SELECT found.*
    FROM unnest($2::text[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT c_offset, entity_code, entity_id, entity_was, operation, entity_action, host_id, stream_id
        FROM tidewire.log
        WHERE entity_code = $1 AND entity_id = wanted.id AND c_offset > $3
          AND octet_length(entity_code) <= 255
          AND octet_length(coalesce(entity_id, '')) <= 1024
        ORDER BY c_offset
        LIMIT $4
    ) AS found
    UNION
    SELECT found.*
    FROM unnest($2::text[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT c_offset, entity_code, entity_id, entity_was, operation, entity_action, host_id, stream_id
        FROM tidewire.log
        WHERE entity_code = $1 AND entity_was = wanted.id AND c_offset > $3
          AND octet_length(entity_code) <= 255 AND octet_length(entity_was) <= 1024
        ORDER BY c_offset
        LIMIT $4
    ) AS found
    UNION
    SELECT * FROM (
        SELECT c_offset, entity_code, entity_id, entity_was, operation, entity_action, host_id, stream_id
        FROM tidewire.log
        WHERE entity_code = $1 AND entity_id IS NULL AND c_offset > $3
          AND octet_length(entity_code) <= 255
          AND octet_length(coalesce(entity_id, '')) <= 1024 AND operation = 'TRUNCATE'
        ORDER BY c_offset
        LIMIT $4
    ) AS truncated
) AS changes
ORDER BY c_offset
LIMIT $4

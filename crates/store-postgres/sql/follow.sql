-- The sizes stand beside the events, so that nothing is fetched to be measured. An entity's id is left out
-- where it is too long for anyone to subscribe to.
SELECT c_offset, stream_id, control, created_at,
       CASE WHEN operation IS NULL THEN octet_length(payload)
            ELSE tidewire.event_bytes(row_bytes, before_data, after_data, NULL)
       END,
       operation IS NOT NULL, entity_code,
       CASE WHEN entity_code IS NOT NULL AND octet_length(entity_id) <= 1024 THEN entity_id END,
       entity_was, CASE WHEN entity_code IS NOT NULL THEN operation END, entity_action,
       CASE WHEN entity_code IS NOT NULL THEN host_id END, txid, tx_last
FROM tidewire.log
WHERE c_offset > $1
ORDER BY c_offset
LIMIT $2

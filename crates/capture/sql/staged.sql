-- What concerns streams among the rows of a batch, each with its place among all of them.
SELECT place, id, txid, whole AND last_of_tx, stream_id, control, payload, content_type, host_id,
       user_id, trace_context, entity_code, entity_id, entity_action
FROM (
    SELECT staging.*,
           row_number() OVER in_order AS place,
           lead(turn) OVER in_order IS DISTINCT FROM turn AS last_of_tx
    FROM tidewire.staging
    JOIN unnest($1::bigint[]) WITH ORDINALITY AS wanted (txid, turn) USING (txid)
    WHERE id >= $2 AND id <= $3 AND (retry_at IS NULL OR retry_at <= now())
      AND (coalesce(statement, id), id) >= ($5::bigint, $6::bigint)
      AND (coalesce(statement, id), id) < ($7::bigint, $8::bigint)
    WINDOW in_order AS (ORDER BY turn, coalesce(statement, id), id)
) AS batch, (VALUES ($4::boolean)) AS batch_is (whole)
WHERE operation IS NULL AND (control IS NULL OR control IN ('create', 'delete'))
ORDER BY place

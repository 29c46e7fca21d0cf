-- Takes a batch of rows out of the staging table and puts those into the log that do not concern
-- streams. Positions follow the tip in the order of transactions, statements and ids. After a place
-- in $6 come as many more positions as $7 says up to there, for events that others write.
WITH taken AS (
    DELETE FROM tidewire.staging
    USING unnest($1::bigint[]) WITH ORDINALITY AS wanted (txid, turn)
    WHERE staging.txid = wanted.txid AND id >= $2 AND id <= $3
      AND (retry_at IS NULL OR retry_at <= now())
      AND (coalesce(statement, id), id) >= ($8::bigint, $9::bigint)
      AND (coalesce(statement, id), id) < ($10::bigint, $11::bigint)
    RETURNING staging.*, turn
),
placed AS (
    SELECT taken.*,
           row_number() OVER in_order AS place,
           lead(turn) OVER in_order IS DISTINCT FROM turn AS last_of_tx
    FROM taken
    WINDOW in_order AS (ORDER BY turn, coalesce(statement, id), id)
),
numbered AS (
    SELECT placed.*, $5::bigint + place + CASE WHEN cardinality($6::bigint[]) = 0 THEN 0 ELSE
        coalesce((
            SELECT more FROM unnest($6::bigint[], $7::bigint[]) AS shift (after_place, more)
            WHERE after_place < place
            ORDER BY after_place DESC
            LIMIT 1
        ), 0) END AS c_offset
    FROM placed
    WHERE operation IS NOT NULL OR control IN ('schema', 'mark')
),
inserted AS (
    INSERT INTO tidewire.log (
        c_offset, stream_id, append_id, host_id, user_id, table_name, operation, entity_code,
        entity_id, before_data, after_data, payload, content_type, control, txid, tx_last,
        trace_context, created_at, entity_was, entity_action, outbox_id, published_at,
        row_bytes
    )
    SELECT c_offset, stream_id, c_offset, host_id, user_id, table_name, operation, entity_code,
           entity_id, before_data, after_data, payload, content_type, control, txid,
           last_of_tx AND $4::boolean, trace_context, created_at, entity_was, entity_action,
           CASE WHEN operation IS NOT NULL THEN id END,
           CASE WHEN operation IS NOT NULL THEN clock_timestamp() END,
           CASE WHEN operation IS NOT NULL THEN tidewire.images_bytes(before_data, after_data) END
    FROM numbered
)
SELECT count(*) FROM placed

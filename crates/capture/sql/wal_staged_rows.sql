-- Takes changes of rows out of the staging table and puts them into the log, each at its place.
WITH taken AS (
    DELETE FROM tidewire.staging
    USING unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[])
        AS event (c_offset, staged_id, whole_txid, last)
    WHERE staging.id = staged_id
    RETURNING staging.*, c_offset, whole_txid, last
)
INSERT INTO tidewire.log (
    c_offset, stream_id, append_id, host_id, user_id, table_name, operation, entity_code, entity_id,
    before_data, after_data, txid, tx_last, trace_context, created_at, entity_was, outbox_id,
    published_at, row_bytes
)
SELECT c_offset, stream_id, c_offset, host_id, user_id, table_name, operation, entity_code, entity_id,
       before_data, after_data, whole_txid, last, trace_context, created_at, entity_was, id,
       clock_timestamp(), tidewire.images_bytes(before_data, after_data)
FROM taken

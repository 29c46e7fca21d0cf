-- Removes some events of a stream, to the archive if they are to be kept there, and lowers what was
-- measured of them. The outer bounds repeat the inner ones so that only the partitions between them
-- are visited. Returns how many, their bytes, and the last of them.
WITH chosen AS (
    SELECT c_offset FROM tidewire.log
    WHERE stream_id = $1 AND control IS NULL AND c_offset > $2 AND c_offset <= $3
      AND c_offset < (SELECT c_offset FROM tidewire.log ORDER BY c_offset DESC LIMIT 1)
    ORDER BY c_offset
    LIMIT $4
), removed AS (
    DELETE FROM tidewire.log
    WHERE c_offset > $2 AND c_offset <= $3 AND c_offset IN (SELECT c_offset FROM chosen)
    RETURNING *
), archived AS (
    INSERT INTO tidewire.log_archive (
        c_offset, stream_id, append_id, host_id, user_id, table_name, operation, entity_code,
        entity_id, before_data, after_data, payload, content_type, control, txid, tx_last,
        trace_context, created_at, entity_was, entity_action, outbox_id, published_at
    )
    SELECT c_offset, stream_id, append_id, host_id, user_id, table_name, operation, entity_code,
           entity_id, before_data, after_data, payload, content_type, control, txid, tx_last,
           trace_context, created_at, entity_was, entity_action, outbox_id, published_at
    FROM removed
    WHERE $5
), sized AS (
    SELECT c_offset,
           coalesce(pg_column_size(before_data), 0) + coalesce(pg_column_size(after_data), 0)
               + $7::bigint AS bytes,
           stream_id >= 'table/' AND stream_id < 'table0'
               AND c_offset <= (SELECT up_to FROM tidewire.log_measured) AS measured
    FROM removed
), sums AS (
    SELECT c_offset / $6::bigint AS bucket, count(*) AS events, sum(bytes)::bigint AS bytes
    FROM sized
    WHERE measured
    GROUP BY 1
), lowered AS (
    UPDATE tidewire.log_buckets AS known
    SET events = greatest(known.events - sums.events, 0),
        bytes = greatest(known.bytes - sums.bytes, 0)
    FROM sums
    WHERE known.bucket = sums.bucket
), lowered_in_all AS (
    UPDATE tidewire.log_measured
    SET events = greatest(events - coalesce((SELECT sum(sums.events) FROM sums), 0), 0)::bigint,
        bytes = greatest(bytes - coalesce((SELECT sum(sums.bytes) FROM sums), 0), 0)::bigint
)
SELECT count(*), coalesce(sum(bytes), 0)::bigint, max(c_offset) FROM sized

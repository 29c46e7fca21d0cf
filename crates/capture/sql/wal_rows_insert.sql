-- What a row's key and owners are is read from the row by the database, as triggers do; it gets a number
-- as if it had been staged. OFFSET 0 keeps the texts from being parsed again wherever a value of theirs
-- is used.
INSERT INTO tidewire.log (
    c_offset, stream_id, append_id, host_id, user_id, table_name, operation, entity_code, entity_id,
    before_data, after_data, txid, tx_last, created_at, entity_was, outbox_id, published_at,
    row_bytes
)
SELECT c_offset, stream_id, c_offset,
       CASE WHEN host_column IS NULL THEN actor_host ELSE image ->> host_column END,
       CASE WHEN user_column IS NULL THEN actor_user ELSE image ->> user_column END,
       table_name, operation, entity_code, entity_id, before_data, after_data, txid, tx_last,
       '2000-01-01 00:00:00+00'::timestamptz + committed_at * interval '1 microsecond',
       CASE WHEN octet_length(entity_was) <= 1024 THEN nullif(entity_was, entity_id) END,
       nextval('tidewire.staging_id_seq'), clock_timestamp(),
       tidewire.images_bytes(before_data, after_data)
FROM (
    SELECT *, coalesce(after_data, before_data) AS image
    FROM (
        SELECT c_offset, stream_id, table_id, table_name, keys::jsonb AS keys, entity_code,
               host_column, user_column, actor_host, actor_user, operation,
               before::jsonb AS before_data, after::jsonb AS after_data, txid, tx_last, committed_at
        FROM unnest(
            $1::bigint[], $2::text[], $3::oid[], $4::text[], $5::text[], $6::text[], $7::text[],
            $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[],
            $14::bigint[], $15::boolean[], $16::bigint[]
        ) AS event (
            c_offset, stream_id, table_id, table_name, keys, entity_code, host_column, user_column,
            actor_host, actor_user, operation, before, after, txid, tx_last, committed_at
        )
        OFFSET 0
    ) AS parsed
) AS rows
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN image IS NULL THEN NULL
        WHEN jsonb_array_length(keys) = 0 THEN image::text
        WHEN jsonb_array_length(keys) > 1 THEN (
            SELECT jsonb_agg(image -> name ORDER BY place)::text
            FROM jsonb_array_elements_text(keys) WITH ORDINALITY AS key (name, place)
        )
        WHEN image ? (keys ->> 0) THEN image ->> (keys ->> 0)
        ELSE image ->> tidewire.renamed_column(table_id, keys ->> 0)
    END,
    CASE
        WHEN entity_code IS NULL OR operation <> 'UPDATE' THEN NULL
        WHEN jsonb_array_length(keys) = 1 THEN before_data ->> (keys ->> 0)
        WHEN jsonb_array_length(keys) > 1 THEN (
            SELECT jsonb_agg(before_data -> name ORDER BY place)::text
            FROM jsonb_array_elements_text(keys) WITH ORDINALITY AS key (name, place)
        )
    END
) AS named (entity_id, entity_was)

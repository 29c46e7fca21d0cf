UPDATE tidewire.staging SET error_message = failed.message, attempts = attempts + 1,
       retry_at = clock_timestamp() + interval '1 second'
FROM unnest($1::bigint[], $2::text[]) AS failed (id, message)
WHERE staging.id = failed.id

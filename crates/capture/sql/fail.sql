-- Notes why rows could not be published. The wait doubles with every attempt, up to five minutes.
UPDATE tidewire.staging SET
    error_message = failed.message,
    attempts = attempts + 1,
    retry_at = clock_timestamp() + least(
        $3::bigint * power(2, least(attempts, 20)), 300000
    ) * interval '1 millisecond'
FROM unnest($1::bigint[], $2::text[]) AS failed (id, message)
WHERE staging.id = failed.id

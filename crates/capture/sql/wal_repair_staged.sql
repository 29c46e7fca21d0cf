-- What is staged and seen, in the order in which it goes into the log. Changes of rows that triggers
-- have staged, before the write-ahead log was the source, are not among it.
SELECT id, txid, lead(txid) OVER (ORDER BY last_id, id) IS DISTINCT FROM txid
FROM (
    SELECT id, txid, max(id) OVER (PARTITION BY txid) AS last_id
    FROM tidewire.staging
    WHERE retry_at IS NULL AND (
        operation IS NULL OR id > coalesce((SELECT staged_until FROM tidewire.capture), 0)
    )
) AS staged
ORDER BY last_id, id

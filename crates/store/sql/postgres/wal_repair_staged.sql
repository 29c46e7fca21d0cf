-- What is staged and seen, in the order in which it goes into the log.
SELECT id, txid, lead(txid) OVER (ORDER BY last_id, id) IS DISTINCT FROM txid
FROM (
    SELECT id, txid, max(id) OVER (PARTITION BY txid) AS last_id
    FROM tidewire.staging
    WHERE operation IS NULL AND retry_at IS NULL
) AS staged
ORDER BY last_id, id

-- The row of a transaction that comes so many rows after a place in its order.
SELECT coalesce(statement, id), id FROM tidewire.staging
WHERE txid = $1 AND id >= $2 AND id <= $3 AND (retry_at IS NULL OR retry_at <= now())
  AND (coalesce(statement, id), id) >= ($4::bigint, $5::bigint)
ORDER BY 1, 2
OFFSET $6
LIMIT 1

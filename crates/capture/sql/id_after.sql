SELECT id FROM tidewire.staging
WHERE txid = $1 AND id >= $2 AND id <= $3 AND (retry_at IS NULL OR retry_at <= now())
ORDER BY id
OFFSET $4
LIMIT 1

-- Whether a stretch of the log has the mark of a transaction, and where.
SELECT c_offset
FROM tidewire.log
WHERE c_offset > $1 AND c_offset <= $2 AND control = 'mark' AND txid = $3
ORDER BY c_offset
LIMIT 1

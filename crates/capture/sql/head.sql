-- Until the slot is read to its end, the write-ahead log is still the source. The last columns say which database this
-- is, as the store's own head.sql does.
SELECT coalesce((SELECT c_offset FROM tidewire.log ORDER BY c_offset DESC LIMIT 1), 0),
       tidewire.now_ms(), generation, CASE WHEN finishing THEN 'wal' ELSE mode END, chunk_txid,
       epoch, timeline, system_identifier, halted,
       pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8),
       (SELECT system_identifier FROM pg_catalog.pg_control_system())
FROM tidewire.capture, tidewire.log_epoch

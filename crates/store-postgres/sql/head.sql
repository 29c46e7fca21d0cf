-- What whoever gives offsets looks at, under the offset lock: the log's end, the clock, and which database this is, as
-- noted and as found. The clock is tidewire.now_ms(), written out: a call costs more than the rest. What is found is
-- left out for roles that may not ask (`Abilities::fit`).
SELECT coalesce((SELECT c_offset FROM tidewire.log ORDER BY c_offset DESC LIMIT 1), 0),
       floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       epoch, timeline, system_identifier, halted,
       pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8),
       (SELECT system_identifier FROM pg_catalog.pg_control_system())
FROM tidewire.log_epoch

-- The clock is tidewire.now_ms(), written out: a call costs more than the rest.
SELECT coalesce((SELECT c_offset FROM tidewire.log ORDER BY c_offset DESC LIMIT 1), 0),
       floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- A stream with the clock, the log's tip and the position of its last event, all in one snapshot. The
-- clock is tidewire.now_ms(), written out: calling it takes longer than all the rest. For a stream
-- that was forked from another, stream_chain has the same columns and the sources too.
SELECT stream_id, created_offset, content_type, ttl_s, expires_fixed_ms, expires_at_ms,
       closed_offset, closed_by_id, closed_by_epoch, closed_by_seq,
       forked_from, fork_offset, fork_sub_offset, fork_position, forks, soft_deleted, last_seq,
       host_id, trimmed_to, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       coalesce((SELECT c_offset FROM tidewire.log ORDER BY c_offset DESC LIMIT 1), 0),
       (
           SELECT c_offset FROM tidewire.log
           WHERE log.stream_id = stream.stream_id AND control IS NULL
             AND c_offset > stream.created_offset
           ORDER BY c_offset DESC
           LIMIT 1
       )
FROM tidewire.streams AS stream
WHERE stream_id = $1

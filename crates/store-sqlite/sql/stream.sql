SELECT stream_id, created_offset, content_type, ttl_s, expires_fixed_ms, expires_at_ms,
       closed_offset, closed_by_id, closed_by_epoch, closed_by_seq,
       forked_from, fork_offset, fork_sub_offset, fork_position, forks, soft_deleted, last_seq,
       host_id, trimmed_to
FROM main.tidewire_streams
WHERE stream_id = ?1

INSERT INTO main.tidewire_streams (
    stream_id, created_offset, content_type, ttl_s, expires_fixed_ms, expires_at_ms,
    closed_offset, closed_by_id, closed_by_epoch, closed_by_seq,
    forked_from, fork_offset, fork_sub_offset, fork_position, forks, soft_deleted, last_seq,
    host_id
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
ON CONFLICT (stream_id) DO UPDATE SET
    created_offset = excluded.created_offset,
    content_type = excluded.content_type,
    ttl_s = excluded.ttl_s,
    expires_fixed_ms = excluded.expires_fixed_ms,
    expires_at_ms = excluded.expires_at_ms,
    closed_offset = excluded.closed_offset,
    closed_by_id = excluded.closed_by_id,
    closed_by_epoch = excluded.closed_by_epoch,
    closed_by_seq = excluded.closed_by_seq,
    forked_from = excluded.forked_from,
    fork_offset = excluded.fork_offset,
    fork_sub_offset = excluded.fork_sub_offset,
    fork_position = excluded.fork_position,
    forks = excluded.forks,
    soft_deleted = excluded.soft_deleted,
    last_seq = excluded.last_seq,
    host_id = excluded.host_id

INSERT INTO tidewire.stream_purges (stream_id, after_offset, up_to_offset, due_at_ms)
SELECT purge.*, $4::bigint FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS purge
ON CONFLICT (stream_id, after_offset) DO NOTHING

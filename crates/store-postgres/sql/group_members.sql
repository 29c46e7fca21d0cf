SELECT member_id, kind, pinned, joined_at_ms,
       lease_until_ms - floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, report::text
FROM tidewire.consumer_members
WHERE group_id = $1
  AND lease_until_ms > floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
ORDER BY joined_at_ms, member_id

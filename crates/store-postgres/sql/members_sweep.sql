DELETE FROM tidewire.consumer_members
WHERE group_id = $1
  AND lease_until_ms < floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - $2::bigint

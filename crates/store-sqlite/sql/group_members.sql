SELECT member_id, kind, pinned, report, joined_at_ms, lease_until_ms - ?2
FROM main.tidewire_consumer_members
WHERE group_id = ?1 AND lease_until_ms > ?2
ORDER BY joined_at_ms, member_id

SELECT joined_at_ms, lease_until_ms FROM main.tidewire_consumer_members WHERE group_id = ?1 AND member_id = ?2

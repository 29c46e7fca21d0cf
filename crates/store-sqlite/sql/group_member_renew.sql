INSERT INTO main.tidewire_consumer_members (
    group_id, member_id, kind, pinned, joined_at_ms, lease_until_ms, report
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (group_id, member_id) DO UPDATE SET
    kind = excluded.kind, pinned = excluded.pinned, joined_at_ms = excluded.joined_at_ms,
    lease_until_ms = excluded.lease_until_ms, report = excluded.report

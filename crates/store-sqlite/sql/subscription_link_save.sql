INSERT INTO main.tidewire_subscription_links (
    subscription_id, stream_id, explicit, by_pattern, acked_offset
) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (subscription_id, stream_id) DO UPDATE SET
    explicit = excluded.explicit,
    by_pattern = excluded.by_pattern,
    acked_offset = excluded.acked_offset

-- Links that stay as they are are not written again: a subscription may have very many.
INSERT INTO tidewire.subscription_links AS link (
    subscription_id, stream_id, explicit, by_pattern, acked_offset
)
SELECT $1, given.* FROM unnest($2::text[], $3::boolean[], $4::boolean[], $5::bigint[]) AS given
ON CONFLICT (subscription_id, stream_id) DO UPDATE SET
    explicit = excluded.explicit,
    by_pattern = excluded.by_pattern,
    acked_offset = excluded.acked_offset
WHERE (link.explicit, link.by_pattern, link.acked_offset)
    IS DISTINCT FROM (excluded.explicit, excluded.by_pattern, excluded.acked_offset)

INSERT INTO tidewire.live_queries (
    live_id, connection_id, query_id, user_id, query, node, plan, user_agent, address
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::text[]
)
ON CONFLICT (live_id) DO UPDATE SET
    connection_id = excluded.connection_id, query_id = excluded.query_id,
    user_id = excluded.user_id, query = excluded.query, node = excluded.node,
    plan = excluded.plan, user_agent = excluded.user_agent, address = excluded.address

INSERT INTO main.tidewire_live_queries (
    live_id, connection_id, query_id, user_id, query, created_at, updated_at, node, plan, user_agent,
    address
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (live_id) DO UPDATE SET
    connection_id = excluded.connection_id, query_id = excluded.query_id,
    user_id = excluded.user_id, query = excluded.query, node = excluded.node,
    plan = excluded.plan, user_agent = excluded.user_agent, address = excluded.address

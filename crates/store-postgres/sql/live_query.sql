SELECT live_id, connection_id, query_id, user_id, query, node, plan, user_agent, address
FROM tidewire.live_query
WHERE live_id = $1

DELETE FROM tidewire.rxdb_subscription AS subscription
USING unnest($1::text[], $2::text[]) AS cleared (connection_id, entity_code)
WHERE subscription.connection_id = cleared.connection_id
  AND subscription.entity_code = cleared.entity_code

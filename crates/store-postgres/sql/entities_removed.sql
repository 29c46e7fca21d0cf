DELETE FROM tidewire.rxdb_subscription AS subscription
USING unnest($1::text[], $2::text[], $3::text[])
    AS removed (connection_id, entity_code, entity_id)
WHERE subscription.connection_id = removed.connection_id
  AND subscription.entity_code = removed.entity_code
  AND subscription.entity_id = removed.entity_id

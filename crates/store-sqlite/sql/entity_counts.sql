-- Each part is read in the order of an index that has all it needs: nothing is sorted.
SELECT entity_code, subscriptions, entities, users
FROM (
    SELECT entity_code, sum(subscriptions) AS subscriptions, count(*) AS entities
    FROM (
        SELECT entity_code, count(*) AS subscriptions
        FROM main.tidewire_rxdb_subscription
        GROUP BY entity_code, entity_id
    ) AS entity
    GROUP BY entity_code
) AS by_entity
JOIN (
    SELECT entity_code, count(*) AS users
    FROM (
        SELECT entity_code FROM main.tidewire_rxdb_subscription GROUP BY user_id, entity_code
    ) AS of_user
    GROUP BY entity_code
) AS by_user USING (entity_code)
ORDER BY entity_code

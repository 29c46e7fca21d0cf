-- Who subscribes to which entity, under the names and types that the RxDB subscription table has.
--
-- The view shows Tidewire's own table as far as its ids are UUIDs. Its columns are expressions, each with
-- an index, so that asking by them is as quick as it is there.

-- A text as a UUID, or null if it is none. Without settings of its own, so that it can be inlined.
CREATE OR REPLACE FUNCTION tidewire.as_uuid(given text) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN given OPERATOR(pg_catalog.~)
        '^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$' THEN given::pg_catalog.uuid END
$$;

CREATE INDEX IF NOT EXISTS rxdb_subscription_compat_entity
    ON tidewire.rxdb_subscription ((entity_code::varchar(100)), (tidewire.as_uuid(entity_id)));
CREATE INDEX IF NOT EXISTS rxdb_subscription_compat_user
    ON tidewire.rxdb_subscription ((tidewire.as_uuid(user_id)));
CREATE INDEX IF NOT EXISTS rxdb_subscription_compat_connection
    ON tidewire.rxdb_subscription ((connection_id::varchar(50)));

CREATE OR REPLACE VIEW "compat_app".rxdb_subscription AS
SELECT tidewire.as_uuid(user_id) AS user_id,
       entity_code::varchar(100) AS entity_code,
       tidewire.as_uuid(entity_id) AS entity_id,
       connection_id::varchar(50) AS connection_id,
       subscribed_at
FROM tidewire.rxdb_subscription
WHERE tidewire.as_uuid(user_id) IS NOT NULL AND tidewire.as_uuid(entity_id) IS NOT NULL
  AND length(entity_code) <= 100 AND length(connection_id) <= 50;

-- Deleting needs no trigger: the view is one table's.
CREATE OR REPLACE FUNCTION tidewire.compat_subscription_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    NEW.subscribed_at := coalesce(NEW.subscribed_at, now());
    INSERT INTO tidewire.rxdb_subscription (
        connection_id, entity_code, entity_id, user_id, subscribed_at
    ) VALUES (
        NEW.connection_id, NEW.entity_code, NEW.entity_id::text, NEW.user_id::text, NEW.subscribed_at
    );
    RETURN NEW;
END;
$$;

CREATE OR REPLACE TRIGGER tidewire_insert INSTEAD OF INSERT ON "compat_app".rxdb_subscription
FOR EACH ROW EXECUTE FUNCTION tidewire.compat_subscription_insert();

-- Subscribes a connection to entities. Returns how many there were; of those that it had already, the
-- time is renewed.
CREATE OR REPLACE FUNCTION "compat_app".bulk_subscribe(
    user_id uuid, connection_id varchar, entity_code varchar, entity_ids uuid[]
) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = '' AS $$
    WITH subscribed AS (
        INSERT INTO tidewire.rxdb_subscription AS known (
            connection_id, entity_code, entity_id, user_id
        )
        SELECT DISTINCT $2, $3, wanted.id::text, $1::text FROM unnest($4) AS wanted (id)
        ON CONFLICT (connection_id, entity_code, entity_id)
            DO UPDATE SET subscribed_at = excluded.subscribed_at
        RETURNING 1
    )
    SELECT count(*)::integer FROM subscribed
$$;

-- Ends subscriptions of a user, of all connections, and returns how many. Without ids: all of that kind.
CREATE OR REPLACE FUNCTION "compat_app".bulk_unsubscribe(
    user_id uuid, entity_code varchar, entity_ids uuid[]
) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    removed integer;
BEGIN
    IF entity_ids IS NULL THEN
        DELETE FROM "compat_app".rxdb_subscription AS known
        WHERE known.user_id = $1 AND known.entity_code = $2;
    ELSE
        DELETE FROM "compat_app".rxdb_subscription AS known
        WHERE known.user_id = $1 AND known.entity_code = $2 AND known.entity_id = ANY($3);
    END IF;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END;
$$;

-- Ends all subscriptions of a connection, those to entities without a UUID too.
CREATE OR REPLACE FUNCTION "compat_app".cleanup_connection_subscriptions(connection_id varchar)
RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = '' AS $$
    WITH removed AS (
        DELETE FROM tidewire.rxdb_subscription AS known WHERE known.connection_id = $1 RETURNING 1
    )
    SELECT count(*)::integer FROM removed
$$;

-- Who subscribes to any of some entities, and to which of them.
CREATE OR REPLACE FUNCTION "compat_app".get_batch_subscribers(entity_code varchar, entity_ids uuid[])
RETURNS TABLE (user_id uuid, connection_id varchar, subscribed_entity_ids uuid[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT known.user_id, known.connection_id, array_agg(known.entity_id ORDER BY known.entity_id)
    FROM "compat_app".rxdb_subscription AS known
    WHERE known.entity_code = $1 AND known.entity_id = ANY($2)
    GROUP BY known.user_id, known.connection_id
    ORDER BY known.user_id, known.connection_id
$$;

-- Ends subscriptions that are older than so many hours, but for those of connections that a living node
-- serves. Returns how many.
CREATE OR REPLACE FUNCTION "compat_app".cleanup_stale_subscriptions(hours integer DEFAULT 24)
RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = '' AS $$
    WITH removed AS (
        DELETE FROM tidewire.rxdb_subscription AS known
        WHERE known.subscribed_at < now() - make_interval(hours => greatest($1, 0))
          AND NOT EXISTS (
              SELECT FROM tidewire.rxdb_subscription AS other
              JOIN tidewire.nodes USING (node_id)
              WHERE other.connection_id = known.connection_id
                AND nodes.lease_until > tidewire.now_ms()
          )
        RETURNING 1
    )
    SELECT count(*)::integer FROM removed
$$;

-- How many subscriptions there are of each kind, those without UUIDs too. Each part is read in the order
-- of an index that has all it needs.
CREATE OR REPLACE FUNCTION "compat_app".get_subscription_stats()
RETURNS TABLE (
    entity_code varchar, subscription_count bigint, unique_users bigint, unique_entities bigint
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
    SELECT entity_code, subscriptions, users, entities
    FROM (
        SELECT entity_code, sum(subscriptions)::bigint AS subscriptions, count(*) AS entities
        FROM (
            SELECT known.entity_code, count(*) AS subscriptions
            FROM tidewire.rxdb_subscription AS known
            GROUP BY known.entity_code, known.entity_id
        ) AS entity
        GROUP BY entity_code
    ) AS by_entity
    JOIN (
        SELECT entity_code, count(*) AS users
        FROM (
            SELECT known.entity_code
            FROM tidewire.rxdb_subscription AS known
            GROUP BY known.user_id, known.entity_code
        ) AS of_user
        GROUP BY entity_code
    ) AS by_user USING (entity_code)
    ORDER BY subscriptions DESC, entity_code
$$;

-- The owner's alone, until granted.
REVOKE EXECUTE ON FUNCTION
    "compat_app".bulk_subscribe(uuid, varchar, varchar, uuid[]),
    "compat_app".bulk_unsubscribe(uuid, varchar, uuid[]),
    "compat_app".cleanup_connection_subscriptions(varchar),
    "compat_app".get_batch_subscribers(varchar, uuid[]),
    "compat_app".cleanup_stale_subscriptions(integer),
    "compat_app".get_subscription_stats()
FROM PUBLIC;

COMMENT ON VIEW "compat_app".rxdb_subscription IS
    'Made by tidewire migrate --compat: who subscribes to which entity';
COMMENT ON FUNCTION "compat_app".bulk_subscribe(uuid, varchar, varchar, uuid[]) IS
    'Made by tidewire migrate --compat: subscribes a connection to entities';
COMMENT ON FUNCTION "compat_app".bulk_unsubscribe(uuid, varchar, uuid[]) IS
    'Made by tidewire migrate --compat: ends subscriptions of a user';
COMMENT ON FUNCTION "compat_app".cleanup_connection_subscriptions(varchar) IS
    'Made by tidewire migrate --compat: ends subscriptions of a connection';
COMMENT ON FUNCTION "compat_app".get_batch_subscribers(varchar, uuid[]) IS
    'Made by tidewire migrate --compat: who subscribes to any of some entities';
COMMENT ON FUNCTION "compat_app".cleanup_stale_subscriptions(integer) IS
    'Made by tidewire migrate --compat: ends subscriptions that are old';
COMMENT ON FUNCTION "compat_app".get_subscription_stats() IS
    'Made by tidewire migrate --compat: how many subscriptions there are';

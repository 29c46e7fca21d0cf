-- What capture from the write-ahead log needs of the server and the role.
SELECT current_setting('wal_level'),
       current_setting('server_version_num')::integer,
       rolreplication OR rolsuper,
       current_user::text,
       (SELECT count(*) FROM pg_catalog.pg_replication_slots
        WHERE slot_name <> tidewire.slot_name()),
       current_setting('max_replication_slots')::bigint,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'walsender'
            AND application_name <> 'tidewire capture'),
       current_setting('max_wal_senders')::bigint,
       pg_catalog.has_database_privilege(current_database(), 'CREATE')
           OR (SELECT count(*) = 2 FROM pg_catalog.pg_publication
               WHERE pubname IN ('tidewire_tables', 'tidewire_staging')),
       current_database()::text,
       coalesce((SELECT string_agg(table_id::regclass::text, ', ' ORDER BY table_name)
        FROM tidewire.watches JOIN pg_catalog.pg_class ON pg_class.oid = table_id
        WHERE relpersistence <> 'p'), ''),
       coalesce((SELECT string_agg(table_id::regclass::text, ', ' ORDER BY table_name)
        FROM tidewire.watches JOIN pg_catalog.pg_class ON pg_class.oid = table_id
        WHERE NOT pg_catalog.pg_has_role(relowner, 'USAGE')), ''),
       current_setting('max_slot_wal_keep_size'),
       coalesce((SELECT string_agg(table_id::regclass::text, ', ' ORDER BY table_name)
        FROM tidewire.watches WHERE EXISTS (
            SELECT FROM pg_catalog.pg_attribute
            WHERE attrelid = table_id AND attgenerated = 'v' AND NOT attisdropped
        )), '')
FROM pg_catalog.pg_roles WHERE rolname = current_user

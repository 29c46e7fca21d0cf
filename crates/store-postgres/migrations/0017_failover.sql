-- Which database the log's epoch belongs to. After a failover, or in a copy, the log may lack its newest events, and
-- their offsets would be given again to others. So whoever gives offsets compares, under the offset lock, the server's
-- timeline (which rises when a standby is promoted) and its system identifier (which differs between clusters that were
-- not copied from one another) with what is noted here. Null until a node that may ask has noted it.
--
-- `halted` says why nobody gives offsets: a node saw the log end before an event that it had seen. `tidewire restore`
-- takes it away.
ALTER TABLE tidewire.log_epoch
    ADD COLUMN timeline          text,
    ADD COLUMN system_identifier bigint,
    ADD COLUMN halted            text;

-- PostgreSQL 18 refuses to change rows whose replica identity has a generated column that is not published, and so
-- every UPDATE and DELETE of a watched table with one. So stored ones are published there, and left out of events as
-- ever.
CREATE OR REPLACE FUNCTION tidewire.make_publications() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    unpublished boolean;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'tidewire_tables') THEN
        CREATE PUBLICATION tidewire_tables WITH (publish_via_partition_root = true);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'tidewire_staging') THEN
        CREATE PUBLICATION tidewire_staging WITH (publish = 'insert');
    END IF;
    IF current_setting('server_version_num')::integer >= 180000 THEN
        EXECUTE 'SELECT pubgencols <> ''s'' FROM pg_publication WHERE pubname = ''tidewire_tables'''
            INTO unpublished;
        IF unpublished THEN
            EXECUTE 'ALTER PUBLICATION tidewire_tables SET (publish_generated_columns = stored)';
        END IF;
    END IF;
END;
$$;

-- Where they are there already they are brought up to date.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = 'tidewire_tables') THEN
        PERFORM tidewire.make_publications();
    END IF;
END;
$$;

-- Virtual generated columns cannot be published at all: such a table is refused, and its writers are spared.
CREATE OR REPLACE FUNCTION tidewire.identify_whole(watched oid) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    part   record;
    set_on bigint := 0;
BEGIN
    IF EXISTS (SELECT FROM pg_attribute
               WHERE attrelid = watched AND attgenerated = 'v' AND NOT attisdropped) THEN
        RAISE EXCEPTION '% cannot be captured from the write-ahead log: it has a virtual generated column',
            watched::regclass
            USING HINT = 'Make the column STORED, or capture = "outbox"';
    END IF;
    DELETE FROM tidewire.replica_identities
    WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid = table_id);
    FOR part IN
        SELECT c.oid, c.relreplident,
               (SELECT i.indexrelid FROM pg_index i
                WHERE i.indrelid = c.oid AND i.indisreplident) AS index_id
        FROM pg_class c
        WHERE (c.oid = watched OR c.oid IN (SELECT relid FROM pg_partition_tree(watched)))
          AND c.relkind IN ('r', 'p') AND c.relreplident <> 'f'
        ORDER BY c.oid
    LOOP
        INSERT INTO tidewire.replica_identities (table_id, root_id, identity, index_id)
            VALUES (part.oid, watched, part.relreplident, part.index_id)
            ON CONFLICT (table_id) DO NOTHING;
        EXECUTE format('ALTER TABLE ONLY %s REPLICA IDENTITY FULL', part.oid::regclass);
        set_on := set_on + 1;
    END LOOP;
    RETURN set_on;
END;
$$;

-- The size of a row's images, by which pages of the log are cut: it stands beside them, measured once when they
-- are written. The size on disk would not do: images of some KiB are compressed there, and text that repeats itself
-- fills hundreds of times its size on disk in the memory of whoever reads it.
ALTER TABLE tidewire.log ADD COLUMN row_bytes integer;

-- What an image takes where it is not compressed. One that is compressed is measured as text.
CREATE FUNCTION tidewire.image_bytes(image jsonb) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN pg_catalog.pg_column_compression(image) IS NULL THEN pg_catalog.pg_column_size(image)
                ELSE pg_catalog.octet_length(image::text) END
$$;

CREATE FUNCTION tidewire.images_bytes(before_data jsonb, after_data jsonb) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(tidewire.image_bytes(before_data), 0) + coalesce(tidewire.image_bytes(after_data), 0)
$$;

-- The one measure of an event. The size of its images is measured where an earlier version wrote it; the length of a
-- payload is known without fetching it.
CREATE FUNCTION tidewire.event_bytes(
    row_bytes integer, before_data jsonb, after_data jsonb, payload bytea
) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(row_bytes, tidewire.images_bytes(before_data, after_data))
           + coalesce(pg_catalog.octet_length(payload), 0)
$$;

-- A name that says its schema is looked for there and nowhere else: with public before it, it would be that of another
-- database.
CREATE OR REPLACE FUNCTION tidewire.find_table(named text) RETURNS oid
LANGUAGE sql STABLE STRICT AS $$
    SELECT coalesce(
        pg_catalog.to_regclass(named),
        CASE WHEN pg_catalog.cardinality(pg_catalog.parse_ident(named)) = 1
             THEN pg_catalog.to_regclass(pg_catalog.concat('public.', named)) END
    )::pg_catalog.oid
$$;

SELECT attname::text FROM pg_catalog.pg_attribute
WHERE attrelid = $1 AND attgenerated <> '' AND NOT attisdropped

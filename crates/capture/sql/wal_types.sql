-- Domains are looked through, as to_jsonb does; so are the domains that arrays are of.
WITH RECURSIVE bases AS (
    SELECT oid AS id, oid AS at FROM pg_catalog.pg_type WHERE oid = ANY($1)
    UNION ALL
    SELECT id, typbasetype FROM bases JOIN pg_catalog.pg_type ON oid = at WHERE typtype = 'd'
), plain AS (
    SELECT id, base.oid AS base, base.typtype, base.typdelim,
           CASE WHEN base.typsubscript = 'pg_catalog.array_subscript_handler'::regproc
                THEN base.typelem END AS element
    FROM bases JOIN pg_catalog.pg_type AS base ON base.oid = at AND base.typtype <> 'd'
), elements AS (
    SELECT element AS id, element AS at FROM plain WHERE element IS NOT NULL
    UNION
    SELECT id, typbasetype FROM elements JOIN pg_catalog.pg_type ON oid = at WHERE typtype = 'd'
)
SELECT plain.id, plain.base, inner_type.oid, coalesce(inner_type.typdelim, plain.typdelim)::text,
       -- Arrays that are not written as such.
       special.oid IS NOT NULL OR plain.base IN (
           'pg_catalog.int2vector'::regtype, 'pg_catalog.oidvector'::regtype
       ),
       pg_catalog.format_type(plain.id, NULL)
FROM plain
LEFT JOIN elements ON elements.id = plain.element AND EXISTS (
    SELECT FROM pg_catalog.pg_type WHERE oid = elements.at AND typtype <> 'd'
)
LEFT JOIN pg_catalog.pg_type AS inner_type ON inner_type.oid = elements.at
LEFT JOIN pg_catalog.pg_type AS special ON special.oid = coalesce(inner_type.oid, plain.base) AND (
    special.typtype = 'c' OR special.oid = 'pg_catalog.record'::regtype
    -- Only types that are not built in are asked for a cast of their own.
    OR special.oid >= 16384 AND EXISTS (
        SELECT FROM pg_catalog.pg_cast
        WHERE castsource = special.oid AND casttarget = 'pg_catalog.json'::regtype
            AND castmethod = 'f'
    )
)

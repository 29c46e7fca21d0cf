-- Whether there is a role ($1), whether we may act as it, and who we are. Since version 16 being a member
-- is not enough to act as a role.
SELECT pg_roles.oid IS NOT NULL,
       coalesce(pg_catalog.pg_has_role(current_user, pg_roles.oid,
           CASE WHEN pg_catalog.current_setting('server_version_num')::integer >= 160000
                THEN 'SET' ELSE 'MEMBER' END), false),
       current_user::text
FROM (SELECT) AS always
LEFT JOIN pg_catalog.pg_roles ON rolname = $1

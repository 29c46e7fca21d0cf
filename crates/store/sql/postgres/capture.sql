SELECT mode, reason, leader,
       (SELECT count(*) FROM (SELECT FROM tidewire.staging ORDER BY id LIMIT 100000) AS first_ones),
       coalesce((
           SELECT tidewire.now_ms() - tidewire.to_ms(created_at)
           FROM tidewire.staging ORDER BY id LIMIT 1
       ), 0),
       (SELECT count(*) FROM tidewire.staging WHERE retry_at IS NOT NULL),
       (SELECT count(*) FROM tidewire.dead_letters),
       current_setting('wal_level'), current_user::text,
       (SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user)
FROM tidewire.capture

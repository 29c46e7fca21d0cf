SELECT mode, reason, leader,
       (SELECT count(*) FROM (SELECT FROM tidewire.staging ORDER BY id LIMIT 100000) AS first_ones),
       coalesce((
           SELECT tidewire.now_ms() - tidewire.to_ms(created_at)
           FROM tidewire.staging ORDER BY id LIMIT 1
       ), 0),
       (SELECT count(*) FROM tidewire.staging WHERE retry_at IS NOT NULL),
       (SELECT count(*) FROM tidewire.dead_letters),
       decided
FROM tidewire.capture

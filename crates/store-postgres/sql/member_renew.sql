-- A member whose lease ran out joins anew. Its row is made if there is such a group, with room for it among the
-- living of its kind: the names of workers over HTTP are their own choice, and keep no member of the library out.
WITH clock AS (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms)
INSERT INTO tidewire.consumer_members AS known (
    group_id, member_id, kind, pinned, joined_at_ms, lease_until_ms, report
)
SELECT $1::varchar, $2::text, $3::text, $4::integer, now_ms, now_ms + $5::bigint, $6::text::jsonb
FROM clock
WHERE EXISTS (
          SELECT FROM tidewire.consumer_groups
          WHERE group_id = $1 AND ($4::integer IS NULL OR $4::integer < total_partitions)
      )
  AND (EXISTS (SELECT FROM tidewire.consumer_members WHERE group_id = $1 AND member_id = $2)
       OR (SELECT count(*) FROM tidewire.consumer_members
           WHERE group_id = $1 AND kind = $3 AND lease_until_ms > now_ms) < $7::bigint)
ON CONFLICT (group_id, member_id) DO UPDATE SET
    kind = excluded.kind, pinned = excluded.pinned, report = excluded.report,
    lease_until_ms = excluded.lease_until_ms,
    joined_at_ms = CASE WHEN known.lease_until_ms > excluded.joined_at_ms
                        THEN known.joined_at_ms ELSE excluded.joined_at_ms END
RETURNING joined_at_ms, joined_at_ms = lease_until_ms - $5::bigint

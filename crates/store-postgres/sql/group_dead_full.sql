-- Stops a group that has as many dead letters as it may have.
UPDATE tidewire.consumer_groups SET stopped = 'dead_letters_full'
WHERE group_id = $1 AND stopped IS NULL
  AND (SELECT count(*) FROM tidewire.consumer_dead_letters
       WHERE group_id = $1 AND state = 'dead') >= $2::bigint

SELECT count(*) FILTER (WHERE state = 'dead'), count(*) FILTER (WHERE state = 'parked')
FROM tidewire.consumer_dead_letters
WHERE group_id = $1

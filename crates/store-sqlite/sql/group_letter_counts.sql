-- From the index alone: the letters themselves may be large.
SELECT state, count(*)
FROM main.tidewire_consumer_dead_letters INDEXED BY tidewire_consumer_dead_letters_by_key
WHERE group_id = ?1
GROUP BY state

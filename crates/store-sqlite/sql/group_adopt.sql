-- No lease of a group of this name that is gone fits rows that are taken over, either.
UPDATE main.tidewire_consumer_offsets SET generation = max(generation, ?2)
WHERE group_id = ?1 AND topic_id = 1

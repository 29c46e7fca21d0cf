-- No lease of a group of this name that is gone fits rows that are taken over, either.
UPDATE tidewire.consumer_offsets SET generation = greatest(generation, tidewire.now_ms())
WHERE group_id = $1 AND topic_id = 1

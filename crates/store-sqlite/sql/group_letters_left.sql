-- Whether letters of a key were to be dropped and are still there.
SELECT EXISTS (SELECT 1 FROM main.tidewire_consumer_dead_letters
               WHERE group_id = ?1 AND key_hash = ?2
                 AND CASE WHEN ?4 IS NULL THEN ?3 OR state = 'dead' ELSE c_offset = ?4 END)

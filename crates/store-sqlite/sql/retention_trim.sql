-- Nothing happens to a stream that was made anew or forked meanwhile.
UPDATE main.tidewire_streams SET trimmed_to = ?3
WHERE stream_id = ?1 AND created_offset = ?2 AND trimmed_to < ?3
  AND forks = 0 AND forked_from IS NULL

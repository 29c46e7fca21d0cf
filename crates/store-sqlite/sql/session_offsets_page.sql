-- Some pointers in order, with whether each is stale: nobody has acknowledged or served it since
-- then. One whose session is gone is an orphan that somebody made by hand.
SELECT page.session_id, page.stream_id,
       page.updated_at < ?4 AND session.node_id IS NULL
           AND coalesce(session.served_until, 0) < ?4,
       session.session_id IS NULL
FROM (
    SELECT session_id, stream_id, updated_at FROM main.tidewire_session_offsets
    WHERE (session_id, stream_id) > (?1, ?2)
    ORDER BY session_id, stream_id
    LIMIT ?3
) AS page
LEFT JOIN main.tidewire_sessions AS session ON session.session_id = page.session_id
ORDER BY page.session_id, page.stream_id

SELECT link.stream_id, link.explicit, link.by_pattern, link.acked_offset,
       coalesce(
           stream.closed_offset,
           (SELECT c_offset FROM tidewire.log
            WHERE log.stream_id = link.stream_id AND control IS NULL
              AND c_offset > stream.created_offset
            ORDER BY c_offset DESC
            LIMIT 1),
           stream.fork_position,
           CASE WHEN stream.trimmed_to > stream.created_offset THEN stream.trimmed_to END,
           0
       ),
       stream.stream_id IS NOT NULL
FROM tidewire.subscription_links AS link
LEFT JOIN tidewire.streams AS stream
    ON stream.stream_id = link.stream_id AND NOT stream.soft_deleted
WHERE link.subscription_id = $1

SELECT link.stream_id, link.explicit, link.by_pattern, link.acked_offset,
       coalesce(
           stream.closed_offset,
           (SELECT max(c_offset) FROM main.log
            WHERE log.stream_id = link.stream_id AND control IS NULL
              AND c_offset > stream.created_offset),
           stream.fork_position,
           CASE WHEN stream.trimmed_to > stream.created_offset THEN stream.trimmed_to END,
           0
       ),
       stream.stream_id IS NOT NULL
FROM main.tidewire_subscription_links AS link
LEFT JOIN main.tidewire_streams AS stream
    ON stream.stream_id = link.stream_id AND NOT stream.soft_deleted
WHERE link.subscription_id = ?1

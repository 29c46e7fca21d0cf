-- Those of tables' streams are counted as well, by retention.
SELECT stream_id, after_offset, up_to_offset FROM main.tidewire_stream_purges
WHERE due_at_ms <= ?1 AND NOT (stream_id >= 'table/' AND stream_id < 'table0')
LIMIT ?2

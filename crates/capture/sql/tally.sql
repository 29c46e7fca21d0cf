UPDATE tidewire.watches SET
    events = watches.events + counted.events,
    last_offset = greatest(watches.last_offset, counted.last_offset)
FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS counted (table_name, events, last_offset)
WHERE watches.table_name = counted.table_name

-- A lateral lookup with a limit is one index probe for each pair, whatever the statistics say.
SELECT producer.*
FROM unnest($1::text[], $2::text[]) AS wanted (stream_id, producer_id)
CROSS JOIN LATERAL (
    SELECT stream_id, producer_id, epoch, seq, tail_offset FROM tidewire.stream_producers AS of
    WHERE of.stream_id = wanted.stream_id AND of.producer_id = wanted.producer_id
    LIMIT 1
) AS producer

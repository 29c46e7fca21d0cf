SELECT c_offset, payload FROM tidewire.log
WHERE c_offset >= $1 AND c_offset <= $2 AND c_offset = ANY($3) AND payload IS NOT NULL

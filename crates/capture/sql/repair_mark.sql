-- A mark, and where the log ended before it.
SELECT tidewire.mark(), coalesce((SELECT c_offset FROM tidewire.log ORDER BY c_offset DESC LIMIT 1), 0)

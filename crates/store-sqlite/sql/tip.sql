SELECT coalesce(max(c_offset), 0) FROM main.log

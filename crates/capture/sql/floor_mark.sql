SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tidewire.staging_id_seq

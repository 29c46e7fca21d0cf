SELECT count(*) FROM tidewire.staging WHERE retry_at IS NOT NULL

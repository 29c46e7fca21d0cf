-- What cannot be asked stays as it is noted.
UPDATE tidewire.log_epoch
SET timeline = coalesce($1, timeline), system_identifier = coalesce($2, system_identifier)

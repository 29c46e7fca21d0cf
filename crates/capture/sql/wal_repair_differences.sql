SELECT operation, before_data::text, after_data::text
FROM tidewire.differences($1, (SELECT settled FROM tidewire.capture))

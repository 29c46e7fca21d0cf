-- Whose a table is, where it is neither ours nor that of a role that we are a member of.
SELECT relation.oid::regclass::text, quote_ident(owner.rolname), quote_ident(current_user)
FROM pg_catalog.pg_class AS relation
JOIN pg_catalog.pg_roles AS owner ON owner.oid = relation.relowner
WHERE relation.oid = tidewire.find_table($1) AND NOT pg_has_role(relation.relowner, 'USAGE')

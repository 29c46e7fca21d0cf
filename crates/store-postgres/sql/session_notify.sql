SELECT pg_notify('tidewire_session', session_id) FROM unnest($1::text[]) AS session_id

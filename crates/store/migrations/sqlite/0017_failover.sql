-- PostgreSQL's part of this number is about failover to another server. The embedded store has none.
SELECT 1;

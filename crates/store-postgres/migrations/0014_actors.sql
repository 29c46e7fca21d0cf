-- Who acts is known also of a transaction that the switch to the write-ahead log overtakes: one that said
-- who acts while triggers were the source, and writes when they are not any more.

-- Whoever says who acts and relies on triggers to read it holds this advisory lock ('tide' + 10), shared,
-- and a switch waits for them. While one waits, the lock is not to be had, and nobody waits for it: a
-- writer who did might hold what the switch needs. The message is written then, too; and where the
-- snapshot may be older than a switch, which it hides.
CREATE OR REPLACE FUNCTION tidewire.set_actor(user_id text, host_id text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    by_triggers boolean;
BEGIN
    PERFORM set_config('tidewire.user_id', coalesce(user_id, ''), true),
            set_config('tidewire.host_id', coalesce(host_id, ''), true);
    by_triggers := current_setting('transaction_isolation') LIKE 'read %'
        AND pg_try_advisory_xact_lock_shared(x'746964650000000a'::bigint);
    -- With a snapshot of its own, taken after the lock.
    by_triggers := by_triggers AND (SELECT mode FROM tidewire.capture) <> 'wal';
    IF NOT by_triggers AND current_setting('wal_level') = 'logical' THEN
        PERFORM pg_logical_emit_message(true, 'tidewire.actor', jsonb_build_object(
            'user_id', nullif(user_id, ''), 'host_id', nullif(host_id, ''))::text);
    END IF;
END;
$$;

ALTER FUNCTION tidewire.switch_capture(text, text, boolean) RENAME TO switch_source;

-- Takes changes from another source from here on, as switch_source says, when nobody relies on triggers
-- to read who acts.
CREATE FUNCTION tidewire.switch_capture(
    wanted text, why text DEFAULT 'it was asked for', by_person boolean DEFAULT true
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF wanted = 'wal' AND (SELECT mode FROM tidewire.capture) <> 'wal' THEN
        PERFORM pg_advisory_xact_lock(x'746964650000000a'::bigint);
    END IF;
    PERFORM tidewire.switch_source(wanted, why, by_person);
END;
$$;

REVOKE EXECUTE ON FUNCTION tidewire.switch_capture(text, text, boolean) FROM PUBLIC;

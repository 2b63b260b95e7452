-- A hand-over happens at the commit and at no other time, and never past a pause.
--
-- SET CONSTRAINTS … IMMEDIATE lets a deferred trigger run inside the open transaction. There it would take an offer and
-- begin a lease long before the message can be seen. So the trigger asks whether it is deferred: it changes its own
-- row, for which it is called again. Within the first call that is nested, and a transaction is open that goes on; at the
-- commit it is a call of its own.

-- It must never make the transaction that enqueues fail or wait: offers are only looked for in a view of the
-- database that is as new as the statement, and those that others are about to take are passed over. The newest offers
-- come first, and only some of them are looked at, so that dead rows, which an old view of the database keeps, are not
-- walked past again and again. Without an offer, for a paused topic, and inside an open transaction it rings.
CREATE OR REPLACE FUNCTION {p}hand_over() RETURNS trigger LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    told text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        UPDATE {p}handing SET seq = NEW.seq WHERE seq = NEW.seq;
        RETURN NULL;
    END IF;
    DELETE FROM {p}handing WHERE seq = NEW.seq;
    IF pg_trigger_depth() = 1 AND current_setting('transaction_isolation') = 'read committed' THEN
        WITH mine AS MATERIALIZED (
            SELECT m.seq, m.topic FROM {p}message m
             WHERE m.seq = NEW.seq AND m.state = 0 AND m.place = 0
               AND NOT EXISTS (SELECT FROM {p}paused p
                                WHERE p.topic IN ('', m.topic)
                                   OR (right(p.topic, 1) = '*' AND starts_with(m.topic, left(p.topic, -1))))
               FOR UPDATE SKIP LOCKED),
        taken AS (
            DELETE FROM {p}offer
             WHERE id = (SELECT o.id FROM mine, {p}offer o
                          WHERE o.id > (SELECT last_value - 64 FROM {p}offer_id_seq)
                            AND (mine.topic = ANY (o.topics)
                                 OR EXISTS (SELECT FROM unnest(o.prefixes) AS u (prefix) WHERE starts_with(mine.topic, u.prefix)))
                            AND {p}offers(o.session)
                          ORDER BY o.id DESC LIMIT 1 FOR UPDATE OF o SKIP LOCKED)
            RETURNING id, session, owner, worker, lease),
        noted AS (
            INSERT INTO {p}batch (fence, owner, claimed_at, lease_until, open, plain_from, plain_to, others)
            SELECT nextval('{p}fence_seq'), t.owner, c.now, c.now + t.lease, 1, NEW.seq, NEW.seq, '{}'
              FROM taken t, (SELECT {p}clock(NULL::bigint) AS now OFFSET 0) c
            RETURNING fence, claimed_at)
        UPDATE {p}message m SET fence = n.fence, started_at = n.claimed_at, attempts = 1, state = 3, worker = t.worker
          FROM taken t, noted n
         WHERE m.seq = NEW.seq
        RETURNING format('for %s %s %s', t.session, n.fence, t.id) INTO told;
    END IF;
    PERFORM pg_notify('{p}bell', coalesce(told, ''));
    RETURN NULL;
END
$body$;

DROP TRIGGER hand_over ON {p}handing;
CREATE CONSTRAINT TRIGGER hand_over AFTER INSERT OR UPDATE ON {p}handing DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION {p}hand_over();

-- Claiming and settling.

-- fragment: has_arrivals
(EXISTS (SELECT FROM {p}message WHERE place = 3) OR EXISTS (SELECT FROM {p}stale_head))

-- fragment: has_ripe
EXISTS (SELECT FROM {p}message WHERE place = 2 AND due_at <= (SELECT {p}clock(:now::bigint)))

-- fragment: has_late
EXISTS (SELECT FROM {p}message WHERE expires_at <> 0 AND place NOT IN (0, 5, 6) AND expires_at <= (SELECT {p}clock(:now::bigint)))

-- fragment: tables
-- Tells these tables from those that had their names before, also if only their rows were written anew.
coalesce((SELECT (s.tableoid::bigint << 32) | s.xmin::text::bigint FROM {p}schema s ORDER BY s.version LIMIT 1), 0)

-- name: look
-- What has to be done before a claim can choose; the newest number given out; and where the search may begin from now
-- on: everything up to :seen_to was given out before the transaction :seen_before began to write, so once all earlier
-- ones have ended, what is not there will never come.
SELECT {{has_arrivals}}, {{has_ripe}}, {{has_late}},
       (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {p}message_seq),
       CASE WHEN :seen_before::bigint > 0 AND pg_catalog.pg_snapshot_xmin(s.running)::text::bigint >= :seen_before::bigint
            THEN coalesce((SELECT m.seq - 1 FROM {p}message m
                            WHERE m.seq > :low::bigint AND m.seq <= :seen_to::bigint AND m.state = 0 AND m.place = 0
                            ORDER BY m.seq LIMIT 1), :seen_to::bigint)
            ELSE :low::bigint END,
       CASE WHEN :seen_before::bigint > 0 THEN pg_catalog.pg_snapshot_xmin(s.running)::text::bigint >= :seen_before::bigint END,
       {{tables}}, (SELECT low FROM {p}mark)
  FROM (SELECT pg_catalog.pg_current_snapshot() AS running) s

-- name: own_transaction
-- NULL while it has written nothing, unless it is to draw an id in any case.
SELECT CASE WHEN :draw::boolean THEN pg_catalog.pg_current_xact_id()
            ELSE pg_catalog.pg_current_xact_id_if_assigned() END::text::bigint

-- name: read_mark
SELECT low, {{tables}} FROM {p}mark

-- name: raise_mark
-- Only in the tables that the number is of: others may have taken their place.
WITH raised AS (
    UPDATE {p}mark SET low = :low::bigint WHERE low < :low::bigint AND {{tables}} = :tables::bigint)
SELECT {{tables}}, low FROM {p}mark

-- name: ripen
-- Messages whose time has come become due.
UPDATE {p}message SET place = 1
 WHERE seq = ANY (ARRAY (SELECT seq FROM {p}message WHERE place = 2 AND due_at <= (SELECT {p}clock(:now::bigint))
                          ORDER BY due_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED))

-- name: unpark
-- Of the messages that were put aside, the oldest of these topics behind :after wait again; when they were due does not
-- change. They
-- stay open, and heads of their keys, all the while: no lock but their own is needed. Late ones are left to expire.
-- (With a plain = the server may take the order of numbers for as good, and walk past all other topics.)
UPDATE {p}message SET place = CASE WHEN due_at <= (SELECT {p}clock(:now::bigint)) THEN 1 ELSE 2 END
 WHERE seq = ANY (ARRAY (SELECT aside.seq
                           FROM (SELECT DISTINCT topic FROM pg_catalog.unnest(:topics::text[]) AS u (topic)) t,
                                LATERAL (SELECT m.seq FROM {p}message m
                                          WHERE m.place >= 7 AND m.topic >= t.topic AND m.topic <= t.topic AND m.seq > :after::bigint
                                            AND (m.expires_at = 0 OR m.expires_at > (SELECT {p}clock(:now::bigint)))
                                          ORDER BY m.topic, m.seq LIMIT :limit::bigint FOR UPDATE SKIP LOCKED) aside
                          ORDER BY aside.seq LIMIT :limit::bigint))

-- name: claim_plain
-- What happens most: nothing but plain messages is due, and all of them start. Nothing is claimed otherwise. A plain row
-- that changes is plain no more, so one that is locked is where this statement saw it, and is found again there.
WITH clock AS MATERIALIZED (SELECT {p}clock(:now::bigint) AS now),
locked AS MATERIALIZED (
    SELECT ctid AS tid, seq FROM {p}message
     WHERE (SELECT NOT (EXISTS (SELECT FROM {p}message WHERE place = 1) OR {{has_arrivals}} OR {{has_ripe}} OR {{has_late}}))
       AND seq > :low::bigint AND state = 0 AND place = 0
     ORDER BY seq LIMIT :limit::bigint FOR UPDATE SKIP LOCKED),
batch AS MATERIALIZED (
    SELECT pg_catalog.nextval('{p}fence_seq') AS fence FROM (SELECT FROM locked LIMIT 1) any_locked),
noted AS (
    INSERT INTO {p}batch (fence, owner, claimed_at, lease_until, open, plain_from, plain_to, others)
    SELECT b.fence, :owner::text, c.now, c.now + :lease::bigint, l.open, l.plain_from, l.plain_to, '{}'
      FROM batch b, clock c, (SELECT pg_catalog.count(*) AS open, pg_catalog.min(seq) AS plain_from, pg_catalog.max(seq) AS plain_to FROM locked) l)
UPDATE {p}message m
   SET fence = (SELECT fence FROM batch), started_at = (SELECT now FROM clock), attempts = 1, state = 3,
       worker = (SELECT id FROM {p}worker WHERE name = :worker::text)
 WHERE m.ctid = ANY (ARRAY (SELECT tid FROM locked))
RETURNING m.seq, m.id, m.created_at, m.topic, m.payload, m.correlation_id, m.causation_id, m.headers, m.fence, m.started_at

-- fragment: countable_attempts
-- A row that was written by hand may have a number that cannot be counted up or down. No claim must fail for it.
greatest(least(m.attempts, 2147483646), 0)

-- name: claim
-- Rows are locked before the fence is drawn, so that the fences of a message only grow. They are found again by their
-- numbers: a row that somebody changed since this statement began is locked in its newest form, which its place in the
-- table leads to but this statement's view does not show. Nothing is claimed while there are chores, unless :anyway.
WITH clock AS MATERIALIZED (SELECT {p}clock(:now::bigint) AS now),
free AS MATERIALIZED (SELECT :anyway::boolean OR NOT ({{has_arrivals}} OR {{has_ripe}} OR {{has_late}}) AS yes),
due AS MATERIALIZED (
    SELECT seq, priority, due_at, place FROM {p}message
     WHERE (SELECT yes FROM free) AND place = 1 AND due_at <= (SELECT now FROM clock)
       AND (expires_at = 0 OR expires_at > (SELECT now FROM clock))
     ORDER BY priority DESC, due_at, seq LIMIT :limit::bigint FOR UPDATE SKIP LOCKED),
plain AS MATERIALIZED (
    SELECT seq, priority, due_at, place FROM {p}message
     WHERE (SELECT yes FROM free) AND seq > :low::bigint AND state = 0 AND place = 0
     ORDER BY seq LIMIT :limit::bigint FOR UPDATE SKIP LOCKED),
picked AS MATERIALIZED (
    SELECT seq, place, pg_catalog.row_number() OVER (ORDER BY priority DESC, due_at, seq) AS ordinal
      FROM (SELECT * FROM due UNION ALL SELECT * FROM plain) both_kinds
     ORDER BY priority DESC, due_at, seq LIMIT :limit::bigint),
batch AS MATERIALIZED (
    SELECT pg_catalog.nextval('{p}fence_seq') AS fence FROM (SELECT FROM picked LIMIT 1) any_picked),
noted AS (
    INSERT INTO {p}batch (fence, owner, claimed_at, lease_until, open, plain_from, plain_to, others)
    SELECT b.fence, :owner::text, c.now, c.now + :lease::bigint, p.open, p.plain_from, p.plain_to, p.others
      FROM batch b, clock c,
           (SELECT pg_catalog.count(*) AS open, coalesce(pg_catalog.min(seq) FILTER (WHERE place = 0), 0) AS plain_from,
                   coalesce(pg_catalog.max(seq) FILTER (WHERE place = 0), 0) AS plain_to,
                   coalesce(pg_catalog.array_agg(seq) FILTER (WHERE place <> 0), '{}') AS others
              FROM picked) p)
UPDATE {p}message m
   SET fence = b.fence,
       started_at = CASE WHEN p.ordinal <= :start::bigint THEN c.now ELSE m.started_at END,
       attempts = {{countable_attempts}} + CASE WHEN p.ordinal <= :start::bigint THEN 1 ELSE 0 END,
       state = CASE WHEN p.ordinal <= :start::bigint THEN 3 ELSE 2 END,
       place = CASE WHEN m.place = 0 THEN 0 ELSE 5 END,
       worker = (SELECT id FROM {p}worker WHERE name = :worker::text)
  FROM pg_catalog.unnest(ARRAY (SELECT seq FROM picked ORDER BY ordinal)) WITH ORDINALITY AS p (seq, ordinal), batch b, clock c
 WHERE m.seq = p.seq
RETURNING p.ordinal, m.seq, m.id, m.created_at, m.due_at, m.topic, m.payload, m.ordering_key, m.correlation_id,
          m.causation_id, m.headers, m.priority, m.attempts, m.state, m.expires_at, b.fence, c.now, m.place

-- name: know_worker
-- A name that is known must not use up a number: this is said again and again where workers share connections.
INSERT INTO {p}worker (name)
SELECT :worker::text WHERE NOT EXISTS (SELECT FROM {p}worker WHERE name = :worker::text)
    ON CONFLICT (name) DO NOTHING

-- name: lock_batch
SELECT lease_until > (SELECT {p}clock(:now::bigint)) FROM {p}batch WHERE fence = :fence::bigint AND owner = :owner::text FOR UPDATE

-- name: members
-- These messages as far as they were claimed with this fence.
SELECT seq, state, expires_at <> 0 AND expires_at <= (SELECT {p}clock(:now::bigint)), topic, id, attempts, ordering_key FROM {p}message
 WHERE seq = ANY (:seqs::bigint[]) AND fence = :fence::bigint

-- name: start
UPDATE {p}message m SET state = 3, attempts = {{countable_attempts}} + 1, started_at = (SELECT {p}clock(:now::bigint))
 WHERE seq = ANY (:seqs::bigint[]) AND fence = :fence::bigint AND state = 2

-- fragment: count_and_close
n AS MATERIALIZED (SELECT pg_catalog.count(*) AS settled FROM settled),
closed AS (
    DELETE FROM {p}batch t USING b, n WHERE t.fence = b.fence AND b.open <= n.settled),
shrunk AS (
    UPDATE {p}batch t SET open = b.open - n.settled
      FROM b, n WHERE t.fence = b.fence AND b.open > n.settled AND n.settled > 0)

-- fragment: close_batch
{{count_and_close}}
-- First how many; then which, unless all of them.
SELECT settled FROM n
 UNION ALL
SELECT seq FROM settled WHERE (SELECT settled FROM n) < pg_catalog.cardinality(:seqs::bigint[])

-- fragment: own_batch
-- Nothing is settled while somebody follows the end of one of :unless_followed: then there is more to do before the
-- commit.
WITH b AS MATERIALIZED (
    SELECT fence, open FROM {p}batch
     WHERE fence = :fence::bigint AND owner = :owner::text
       AND NOT EXISTS (SELECT FROM {p}join_member j WHERE j.seq = ANY (:unless_followed::bigint[]) AND j.state = 0)
       FOR UPDATE)

-- name: settle_done
{{own_batch}},
settled AS (
    UPDATE {p}message m SET state = 6, place = 0, finished_at = (SELECT {p}clock(:now::bigint))
     WHERE m.seq = ANY (:seqs::bigint[]) AND m.fence = (SELECT fence FROM b) AND m.state IN (2, 3)
    RETURNING m.seq),
{{close_batch}}

-- fragment: own_plain_batch
WITH b AS MATERIALIZED (
    SELECT fence, open FROM {p}batch
     WHERE fence = :fence::bigint AND owner = :owner::text AND pg_catalog.cardinality(others) = 0
       FOR UPDATE SKIP LOCKED)

-- name: settle_plain
-- A batch of nothing but plain messages is done. Says 0 also when the batch is of another kind, or another transaction
-- holds it.
{{own_plain_batch}},
settled AS (
    UPDATE {p}message m SET state = 6, finished_at = (SELECT {p}clock(:now::bigint))
     WHERE m.seq = ANY (:seqs::bigint[]) AND m.fence = (SELECT fence FROM b) AND m.state IN (2, 3)
    RETURNING m.seq),
{{close_batch}}

-- name: settle_stretch
-- The same for numbers without a gap: one walk along the index instead of a search for each.
{{own_plain_batch}},
settled AS (
    UPDATE {p}message m SET state = 6, finished_at = (SELECT {p}clock(:now::bigint))
     WHERE m.seq >= :first::bigint AND m.seq <= :last::bigint AND m.fence = (SELECT fence FROM b) AND m.state IN (2, 3)
    RETURNING m.seq),
{{count_and_close}}
SELECT settled FROM n
 UNION ALL
SELECT seq FROM settled WHERE (SELECT settled FROM n) <= :last::bigint - :first::bigint

-- name: settle_forget
{{own_batch}},
settled AS (
    DELETE FROM {p}message m
     WHERE m.seq = ANY (:seqs::bigint[]) AND m.fence = (SELECT fence FROM b) AND m.state IN (2, 3)
    RETURNING m.seq),
{{close_batch}}

-- name: settle_any
-- :states are those of the table: 0 waits again (after a delay, or at its old time, which has come), 4 and 5 are dead, 6
-- is done. A message is :unharmed where there is a number: its start is taken back, and it goes to that place, or into
-- the queue for 0.
{{own_batch}},
c AS MATERIALIZED (SELECT {p}clock(:now::bigint) AS now),
settled AS (
    UPDATE {p}message m
       SET state = CASE WHEN w.state = 4 AND m.ordering_key = '' THEN 5 ELSE w.state END,
           place = CASE WHEN w.state IN (4, 5) THEN 6 WHEN w.state = 6 THEN 0 WHEN w.unharmed > 0 THEN w.unharmed
                        WHEN w.delay > 0 THEN 2 ELSE 1 END,
           due_at = coalesce(c.now + w.delay, least(m.due_at, c.now)),
           finished_at = CASE WHEN w.state = 0 THEN 0 ELSE c.now END,
           attempts = {{countable_attempts}} - CASE WHEN w.unharmed IS NOT NULL AND m.state = 3 THEN 1 ELSE 0 END,
           errors = least(m.errors, 2147483646) + CASE WHEN w.error IS NULL THEN 0 ELSE 1 END,
           failed_at = CASE WHEN w.error IS NULL THEN m.failed_at ELSE c.now END,
           last_error = coalesce(w.error, m.last_error)
      FROM unnest(:seqs::bigint[], :states::bigint[], :delays::bigint[], :errors::text[], :unharmed::bigint[])
           AS w (seq, state, delay, error, unharmed), c
     WHERE m.seq = w.seq AND m.fence = (SELECT fence FROM b) AND m.state IN (2, 3)
    RETURNING m.seq),
{{close_batch}}

-- name: renew
UPDATE {p}batch SET lease_until = (SELECT {p}clock(:now::bigint)) + :lease::bigint WHERE fence = :fence::bigint AND owner = :owner::text

-- name: overdue_batches
SELECT fence, owner FROM {p}batch WHERE lease_until <= (SELECT {p}clock(:now::bigint))
 ORDER BY lease_until, fence LIMIT :limit::bigint FOR UPDATE SKIP LOCKED

-- name: open_members
SELECT m.seq, m.state, m.topic, m.id, m.attempts FROM {p}batch b,
       LATERAL (SELECT * FROM {p}message p WHERE p.seq BETWEEN b.plain_from AND b.plain_to AND p.place = 0
                 UNION ALL
                SELECT * FROM {p}message o WHERE o.seq = ANY (b.others)) m
 WHERE b.fence = :fence::bigint AND m.fence = b.fence AND m.state IN (2, 3)
 ORDER BY m.seq

-- name: late
SELECT seq, ordering_key FROM {p}message
 WHERE expires_at <> 0 AND place NOT IN (0, 5, 6) AND expires_at <= (SELECT {p}clock(:now::bigint))
 ORDER BY expires_at LIMIT :limit::bigint

-- name: expire
UPDATE {p}message SET state = 8, place = 0, finished_at = (SELECT {p}clock(:now::bigint))
 WHERE seq = ANY (ARRAY (SELECT seq FROM {p}message WHERE seq = ANY (:seqs::bigint[]) AND place NOT IN (0, 5, 6)
                          ORDER BY seq FOR UPDATE SKIP LOCKED))
RETURNING seq

-- name: bring_back
-- A message is due some time after the latest instant at which it was enqueued, started or failed. If that instant is
-- still to come, the clock was set back, and the time counts from now. That needs no lock of a key: places stay.
WITH clock AS MATERIALIZED (SELECT {p}clock(:now::bigint) AS now),
ahead AS MATERIALIZED (
    SELECT m.seq, t.since
      FROM {p}message m, clock c,
           LATERAL (SELECT greatest(CASE WHEN m.created_at <= m.due_at THEN m.created_at END,
                                    CASE WHEN m.started_at <= m.due_at THEN m.started_at END,
                                    CASE WHEN m.failed_at <= m.due_at THEN m.failed_at END) AS since) t
     WHERE m.place <> 0 AND m.place NOT IN (5, 6) AND m.due_at > c.now
       AND t.since > c.now + 2000000 AND m.due_at - t.since < t.since - c.now
     LIMIT :limit::bigint FOR UPDATE OF m SKIP LOCKED),
batches AS MATERIALIZED (
    SELECT b.fence FROM {p}batch b, clock c
     WHERE b.claimed_at > c.now + 2000000 AND b.lease_until >= b.claimed_at
       AND b.lease_until - b.claimed_at < b.claimed_at - c.now
       FOR UPDATE OF b SKIP LOCKED),
leases AS (
    UPDATE {p}batch b SET lease_until = b.lease_until - (b.claimed_at - c.now)
      FROM batches o, clock c
     WHERE b.fence = o.fence)
UPDATE {p}message m
   SET due_at = CASE WHEN m.topic = 'job.tick' THEN c.now ELSE m.due_at - (a.since - c.now) END
  FROM ahead a, clock c
 WHERE m.seq = a.seq

-- name: lock_any_batch
SELECT FROM {p}batch WHERE fence = :fence::bigint FOR UPDATE

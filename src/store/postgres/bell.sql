-- The bell. Whoever sleeps listens, and is *in the bedroom* (a lock that all sleepers share); one of them *holds the bell*
-- (a lock that only one can have). Whoever enqueues looks whether anybody holds the bell, see ring() in the migrations,
-- and notifies only then: a notification costs every commit a turn in one queue. Locks are only ever tried, because a
-- session that waits for one holds back the clean-up of the whole database.

-- name: listen
LISTEN "{p}bell"

-- name: stop_listening
UNLISTEN "{p}bell"

-- name: enter_bedroom
SELECT pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtext('{p}bell'), 2)

-- name: take_bell
-- An id of our own, drawn while we hold it; NULL if another has it.
SELECT CASE WHEN pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext('{p}bell'), 1) THEN pg_catalog.pg_current_xact_id()::text::bigint END

-- name: running
-- Older transactions that still run: they may have found nobody who holds the bell, and commit without a sound. A view
-- of the database lists those that run only up to the newest that has ended; once that of our own id has, it is all.
SELECT xid FROM (SELECT pg_catalog.pg_snapshot_xip(pg_catalog.pg_current_snapshot())::text::bigint) r (xid) WHERE xid < :before::bigint

-- name: leave_bell
SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtext('{p}bell'), 1)

-- name: leave_bedroom
SELECT pg_catalog.pg_advisory_unlock_shared(pg_catalog.hashtext('{p}bell'), 2)

-- fragment: nobody_else_sleeps
WHEN pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext('{p}bell'), 2) THEN pg_catalog.pg_advisory_unlock(pg_catalog.hashtext('{p}bell'), 2)

-- name: pass_bell_on
-- After letting go of the bell: one of those who still sleep should take it.
SELECT CASE {{nobody_else_sleeps}} ELSE pg_catalog.pg_notify('{p}bell', 'take it') IS NULL END

-- name: ring_others
SELECT CASE {{nobody_else_sleeps}} ELSE pg_catalog.pg_notify('{p}bell', '') IS NULL END

-- name: take_bells
-- The same for many schemas at once: their bedrooms, and their bells unless others have them. Whoever asks draws an id
-- of its own afterwards.
SELECT n, pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtext(n), 2), pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext(n), 1) FROM pg_catalog.unnest(:names::text[]) n

-- name: take_bells_again
-- For those who sleep in the bedroom already.
SELECT n, pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext(n), 1) FROM pg_catalog.unnest(:names::text[]) n

-- name: own_id
SELECT pg_catalog.pg_current_xact_id()::text::bigint

-- Offers: what a sleeper would take without asking, see hand_over() in the migrations. They count while the session holds
-- a lock that bears its number.

-- name: may_offer
-- The role's rights may be older than the table.
SELECT pg_catalog.has_table_privilege('{p}offer', 'SELECT') AND pg_catalog.has_table_privilege('{p}offer', 'INSERT')
   AND pg_catalog.has_table_privilege('{p}offer', 'DELETE')

-- name: begin_offering
SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext('{p}offer'), pg_catalog.pg_backend_pid())

-- name: forget_offers
-- Of sessions that have ended, ours among them if the server has used our number before.
DELETE FROM {p}offer WHERE session = pg_catalog.pg_backend_pid() OR NOT {p}offers(session)

-- name: make_offers
INSERT INTO {p}offer (session, owner, worker, lease, topics, prefixes)
SELECT pg_catalog.pg_backend_pid(), :owner::text, w.id, :lease::bigint, :topics::text[], :prefixes::text[]
  FROM {p}worker w, pg_catalog.generate_series(1, :places::bigint)
 WHERE w.name = :worker::text
RETURNING id

-- name: withdraw_offers
-- Waits for those who are taking one, and are about to commit.
DELETE FROM {p}offer WHERE id = ANY (:ids::bigint[])

-- fragment: handed_message
SELECT m.seq, m.id, m.created_at, m.topic, m.payload, m.correlation_id, m.causation_id, m.headers, m.fence, m.started_at,
       {p}clock(NULL::bigint),
       pg_catalog.array_to_string(ARRAY (SELECT o.id FROM {p}offer o WHERE o.id = ANY (:offers::bigint[])), ' ')
  FROM {p}batch b JOIN {p}message m ON m.seq = b.plain_from AND m.fence = b.fence

-- name: handed_over
{{handed_message}}
 WHERE b.fence = ANY (:fences::bigint[]) AND b.owner = :owner::text AND m.state = 3

-- name: unheard_of
-- What an owner holds and does not know: it was handed over while nobody listened.
{{handed_message}}
 WHERE b.owner = :owner::text AND b.open = 1 AND b.plain_to = b.plain_from AND m.state = 3
   AND b.fence <> ALL (:known::bigint[])

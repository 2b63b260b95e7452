-- The bell. Whoever sleeps listens, and is *in the bedroom* (a lock that all sleepers share); one of them *holds the bell*
-- (a lock that only one can have). Whoever enqueues looks whether anybody holds the bell, see ring() in the migrations,
-- and notifies only then: a notification costs every commit a turn in one queue. Locks are only ever tried, because a
-- session that waits for one holds back the clean-up of the whole database.

-- name: listen
LISTEN "{p}bell"

-- name: stop_listening
UNLISTEN "{p}bell"

-- name: enter_bedroom
SELECT pg_try_advisory_lock_shared(hashtext('{p}bell'), 2)

-- name: take_bell
-- An id of our own, drawn while we hold it; NULL if another has it.
SELECT CASE WHEN pg_try_advisory_lock(hashtext('{p}bell'), 1) THEN pg_current_xact_id()::text::bigint END

-- name: running
-- Older transactions that still run: they may have found nobody who holds the bell, and commit without a sound. A view
-- of the database lists those that run only up to the newest that has ended; once that of our own id has, it is all.
SELECT xid FROM (SELECT pg_snapshot_xip(pg_current_snapshot())::text::bigint) r (xid) WHERE xid < :before::bigint

-- name: leave_bell
SELECT pg_advisory_unlock(hashtext('{p}bell'), 1)

-- name: leave_bedroom
SELECT pg_advisory_unlock_shared(hashtext('{p}bell'), 2)

-- fragment: nobody_else_sleeps
WHEN pg_try_advisory_lock(hashtext('{p}bell'), 2) THEN pg_advisory_unlock(hashtext('{p}bell'), 2)

-- name: pass_bell_on
-- After letting go of the bell: one of those who still sleep should take it.
SELECT CASE {{nobody_else_sleeps}} ELSE pg_notify('{p}bell', 'take it') IS NULL END

-- name: ring_others
SELECT CASE {{nobody_else_sleeps}} ELSE pg_notify('{p}bell', '') IS NULL END

-- name: take_bells
-- The same for many schemas at once: their bedrooms, and their bells unless others have them. Whoever asks draws an id
-- of its own afterwards.
SELECT n, pg_try_advisory_lock_shared(hashtext(n), 2), pg_try_advisory_lock(hashtext(n), 1) FROM unnest(:names::text[]) n

-- name: take_bells_again
-- For those who sleep in the bedroom already.
SELECT n, pg_try_advisory_lock(hashtext(n), 1) FROM unnest(:names::text[]) n

-- name: own_id
SELECT pg_current_xact_id()::text::bigint

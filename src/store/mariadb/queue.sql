-- Claiming and settling. A list of numbers is one JSON parameter; STRAIGHT_JOIN makes the list the outer table and
-- FORCE INDEX forbids to read the other one from end to end, so that every row is reached by its primary key and nothing
-- but these rows is locked, however small the table is.

-- name: look
-- What a claim will find, without a lock: what a worker that has nothing to do costs.
SELECT CAST(COALESCE(:now, {{clock}}) AS SIGNED),
       EXISTS (SELECT 1 FROM {p}queue WHERE place = 0),
       EXISTS (SELECT 1 FROM {p}stale_head),
       EXISTS (SELECT 1 FROM {p}queue WHERE place IN (0, 1, 2, 9) AND expires_at <= COALESCE(:now, {{clock}})),
       EXISTS (SELECT 1 FROM {p}queue WHERE place = 1)

-- name: any_ready
SELECT EXISTS (SELECT 1 FROM {p}ready)

-- name: arrived
SELECT seq, ordering_key FROM {p}queue FORCE INDEX ({p}queue_place)
 WHERE place = 0 AND seq > :after ORDER BY seq LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: arrived_before
-- All messages that have arrived with the keys of these and not after them, whoever has locked them.
SELECT o.seq, o.ordering_key
  FROM {{list}} STRAIGHT_JOIN {p}queue q FORCE INDEX (PRIMARY) ON q.seq = l.seq
       STRAIGHT_JOIN {p}queue o FORCE INDEX ({p}queue_key)
           ON o.ordering_key = q.ordering_key AND o.place = 0 AND o.seq <= q.seq

-- name: ensure_heads
-- Locks the heads of these messages' keys; a key without one gets the message as its head. INSERT IGNORE would lock
-- a head that exists for sharing only, and two workers would then wait for each other.
INSERT INTO {p}key_head (ordering_key, seq)
SELECT q.ordering_key, q.seq FROM {{list}} STRAIGHT_JOIN {p}queue q FORCE INDEX (PRIMARY) ON q.seq = l.seq
    ON DUPLICATE KEY UPDATE seq = {p}key_head.seq

-- name: heads_of
SELECT q.ordering_key, h.seq
  FROM {{list}} STRAIGHT_JOIN {p}queue q FORCE INDEX (PRIMARY) ON q.seq = l.seq
       STRAIGHT_JOIN {p}key_head h FORCE INDEX (PRIMARY) ON h.ordering_key = q.ordering_key

-- name: move_queued
UPDATE {{list}} STRAIGHT_JOIN {p}queue q FORCE INDEX (PRIMARY) ON q.seq = l.seq SET q.place = :place

-- name: next_urgency
-- The most urgent priority in use after a given one, and since when its first message is due: one index look-up
-- for each, so that a store without priorities pays for exactly one.
SELECT urgency, due_at FROM {p}queue FORCE INDEX ({p}queue_claim)
 WHERE place = 1 AND urgency > :after ORDER BY urgency, due_at LIMIT 1

-- name: next_in_queue
SELECT seq, due_at, expires_at, attempts, ordering_key FROM {p}queue FORCE INDEX ({p}queue_claim)
 WHERE place = 1 AND urgency = :urgency AND due_at <= :now AND (expires_at IS NULL OR expires_at > :now)
 ORDER BY due_at, seq LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: next_ready
SELECT seq FROM {p}ready FORCE INDEX (PRIMARY) WHERE seq > :after ORDER BY seq LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: earlier_ready
SELECT seq FROM {p}ready FORCE INDEX (PRIMARY) WHERE seq <= :until ORDER BY seq LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: messages_of
SELECT m.seq, m.id, m.created_at, {{topic}}, m.payload, m.correlation_id, m.causation_id, m.headers
  FROM {{list}} STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = l.seq

-- name: take_ready
DELETE r FROM {{list}} STRAIGHT_JOIN {p}ready r FORCE INDEX (PRIMARY) ON r.seq = l.seq

-- name: mark_claimed
UPDATE {{list}} STRAIGHT_JOIN {p}queue q FORCE INDEX (PRIMARY) ON q.seq = l.seq SET q.place = 3, q.fence = :fence, q.worker = :worker

-- name: insert_batch
-- The fence is taken here, after the members are locked: so it grows for every one of them.
-- Whoever attaches a member to a join has locked it, too: so all that are attached are seen. It may be one between them
-- that is not of this batch. INSERT … SELECT, because at READ COMMITTED it reads without a lock: a subquery among VALUES
-- would wait for whoever has a member between them and has not committed.
INSERT INTO {p}batch (owner, worker, claimed_at, lease_until, open, first_seq, last_seq, members, settled, starts, followed)
SELECT :owner, :worker, :claimed_at, :lease_until, :open, :first_seq, :last_seq, :members, :settled, :starts,
       EXISTS (SELECT 1 FROM {p}join_member j WHERE j.seq BETWEEN :first_seq AND :last_seq)
RETURNING fence

-- fragment: batch_columns
fence, owner, worker, claimed_at, lease_until, open, members, settled, starts, followed

-- name: lock_batch
SELECT {{batch_columns}} FROM {p}batch WHERE fence = :fence FOR UPDATE

-- name: read_batch
SELECT {{batch_columns}} FROM {p}batch WHERE fence = :fence

-- name: read_batches
SELECT {{batch_columns}} FROM {p}batch ORDER BY fence

-- name: overdue_batches
SELECT {{batch_columns}} FROM {p}batch FORCE INDEX ({p}batch_lease)
 WHERE lease_until <= :now ORDER BY lease_until, fence LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: update_batch
UPDATE {p}batch SET open = :open, settled = :settled, starts = :starts WHERE fence = :fence

-- name: delete_batch
DELETE FROM {p}batch WHERE fence = :fence

-- name: renew_batch
UPDATE {p}batch SET lease_until = :lease_until WHERE fence = :fence

-- name: topics_of
-- Locking reads here and below: at REPEATABLE READ others might not see what was claimed a moment ago.
SELECT m.seq, {{topic}}, m.id FROM {{list}} STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = l.seq LOCK IN SHARE MODE

-- name: creation_of
SELECT m.seq, m.created_at FROM {{list}} STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = l.seq
  LOCK IN SHARE MODE

-- name: attempts_of
SELECT q.seq, q.attempts FROM {{list}} STRAIGHT_JOIN {p}queue q FORCE INDEX (PRIMARY) ON q.seq = l.seq LOCK IN SHARE MODE

-- name: late_among
SELECT q.seq FROM {{list}} STRAIGHT_JOIN {p}queue q FORCE INDEX (PRIMARY) ON q.seq = l.seq AND q.expires_at <= :now FOR UPDATE

-- name: was_called_off
-- 7 is cancelled, 8 expired: ends that a claim does not prevent as long as it has not started.
SELECT 1 FROM {p}finished WHERE seq = :seq AND fence = :fence AND state IN (7, 8)

-- fragment: endings
JSON_TABLE(:list, '$[*]' COLUMNS (seq BIGINT PATH '$[0]', started_at BIGINT PATH '$[1]')) l

-- name: finish_plain_together
-- Messages that were never in the queue and have started together, as whole batches do. Here and below: what has ended
-- before, because another program made it wait again, keeps its end and stops nothing.
INSERT INTO {p}finished (seq, state, finished_at, started_at, attempts, fence, worker)
SELECT l.seq, :state, :now, :started_at, :attempts, :fence, :worker FROM {{list}}
    ON DUPLICATE KEY UPDATE seq = {p}finished.seq

-- name: finish_plain
-- Messages that were never in the queue: this was their first and only delivery.
INSERT INTO {p}finished (seq, state, finished_at, started_at, attempts, fence, worker)
SELECT l.seq, :state, :now, l.started_at, l.started_at IS NOT NULL, :fence, :worker FROM {{endings}}
    ON DUPLICATE KEY UPDATE seq = {p}finished.seq

-- name: lock_queued_list
SELECT q.seq, q.place, q.ordering_key FROM {{list}} STRAIGHT_JOIN {p}queue q FORCE INDEX (PRIMARY) ON q.seq = l.seq FOR UPDATE

-- name: finish_queued
INSERT INTO {p}finished (seq, state, finished_at, started_at, failed_at, attempts, errors, redrives, fence,
                         urgency, due_at, expires_at, worker, last_error)
SELECT q.seq, :state, :now, COALESCE(l.started_at, q.started_at), q.failed_at, q.attempts + (l.started_at IS NOT NULL),
       q.errors, q.redrives, q.fence, q.urgency, q.due_at, q.expires_at, q.worker, q.last_error
  FROM {{endings}} STRAIGHT_JOIN {p}queue q FORCE INDEX (PRIMARY) ON q.seq = l.seq
    ON DUPLICATE KEY UPDATE seq = {p}finished.seq

-- name: delete_queued
DELETE q FROM {{list}} STRAIGHT_JOIN {p}queue q FORCE INDEX (PRIMARY) ON q.seq = l.seq

-- name: delete_own_ids
DELETE o FROM {{list}} STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = l.seq STRAIGHT_JOIN {p}own_id o FORCE INDEX (PRIMARY) ON o.id = m.id_start

-- name: delete_messages
DELETE m FROM {{list}} STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = l.seq

-- name: requeue_plain
-- A plain message that comes back, or died: from now on it has a row of its own. Executed for many at once, and
-- therefore without anything that the server would evaluate once for all of them.
INSERT INTO {p}queue (seq, place, due_at, fence, attempts, errors, started_at, failed_at, finished_at, worker, last_error)
VALUES (:seq, :place, :due_at, :fence, :attempts,
        :errors, :started_at, :failed_at, :finished_at, :worker, :error)
    ON DUPLICATE KEY UPDATE seq = {p}queue.seq

-- name: requeue_queued
UPDATE {p}queue
   SET place = IF(:place = 4 AND ordering_key IS NULL, 5, :place),
       due_at = COALESCE(:due_at, LEAST(due_at, :now)), attempts = attempts + :attempts, errors = errors + :errors,
       started_at = COALESCE(:started_at, started_at), failed_at = COALESCE(:failed_at, failed_at),
       finished_at = :finished_at, last_error = COALESCE(:error, last_error)
 WHERE seq = :seq

-- name: stale_heads
SELECT number, ordering_key FROM {p}stale_head ORDER BY number LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: note_stale_head
INSERT INTO {p}stale_head (ordering_key) VALUES (:ordering_key)

-- name: forget_stale_heads
DELETE s FROM {{list}} STRAIGHT_JOIN {p}stale_head s FORCE INDEX (PRIMARY) ON s.number = l.seq

-- name: has_head
SELECT 1 FROM {p}key_head WHERE ordering_key = :ordering_key

-- name: lock_free_head
-- For a worker, which waits for no application.
SELECT seq FROM {p}key_head WHERE ordering_key = :ordering_key FOR UPDATE SKIP LOCKED

-- name: place_of
SELECT place FROM {p}queue WHERE seq = :seq

-- name: next_seen_of_key
-- As next_of_key, without a lock: the head's lock keeps others from adding to those that wait.
SELECT seq FROM {p}queue FORCE INDEX ({p}queue_key)
 WHERE ordering_key = :ordering_key AND place = 2 ORDER BY seq LIMIT 1

-- name: make_ready
UPDATE {p}queue SET place = 1 WHERE seq = :seq AND place = 2

-- name: lock_head
SELECT seq FROM {p}key_head WHERE ordering_key = :ordering_key FOR UPDATE

-- name: next_of_key
-- The messages that have only arrived do not matter here: a worker admits them when it looks, and never past an
-- earlier one of their key.
SELECT seq FROM {p}queue FORCE INDEX ({p}queue_key)
 WHERE ordering_key = :ordering_key AND place = 2 ORDER BY seq LIMIT 1 FOR UPDATE

-- name: first_arrived_of_key
SELECT seq FROM {p}queue FORCE INDEX ({p}queue_key)
 WHERE ordering_key = :ordering_key AND place = 0 ORDER BY seq LIMIT 1 FOR UPDATE

-- name: set_head
INSERT INTO {p}key_head (ordering_key, seq) VALUES (:ordering_key, :seq) ON DUPLICATE KEY UPDATE seq = :seq

-- name: ensure_head
INSERT INTO {p}key_head (ordering_key, seq) VALUES (:ordering_key, :seq)
    ON DUPLICATE KEY UPDATE seq = {p}key_head.seq

-- name: delete_head
DELETE FROM {p}key_head WHERE ordering_key = :ordering_key

-- name: move_one
UPDATE {p}queue SET place = :place WHERE seq = :seq

-- name: expirable
SELECT seq FROM {p}queue FORCE INDEX ({p}queue_expiry)
 WHERE place IN (0, 1, 2, 9) AND expires_at <= :now LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: written_ahead
-- A message is due some time after the latest instant at which it was enqueued, started or failed. If that instant is
-- still to come, the clock was set back, and the time counts from now.
SELECT seq, CASE WHEN topic = 'job.tick' THEN :now ELSE due_at - (since - :now) END
  FROM (SELECT q.seq, m.topic, q.due_at,
               GREATEST(CASE WHEN m.created_at <= q.due_at THEN m.created_at ELSE 0 END,
                        CASE WHEN q.started_at <= q.due_at THEN q.started_at ELSE 0 END,
                        CASE WHEN q.failed_at <= q.due_at THEN q.failed_at ELSE 0 END) AS since
          FROM {p}queue q FORCE INDEX ({p}queue_place) JOIN {p}message m ON m.seq = q.seq
         WHERE q.place IN (0, 1, 2, 9) AND q.due_at > :now) waiting
 WHERE since > :now + 2000000 AND due_at - since < since - :now LIMIT :limit

-- name: lock_free_queued
SELECT seq FROM {p}queue WHERE seq = :seq AND place IN (0, 1, 2, 9) FOR UPDATE SKIP LOCKED

-- name: set_due
UPDATE {p}queue SET due_at = :due_at WHERE seq = :seq

-- name: leases_ahead
SELECT fence, lease_until - (claimed_at - :now) FROM {p}batch
 WHERE claimed_at > :now + 2000000 AND lease_until >= claimed_at AND lease_until - claimed_at < claimed_at - :now

-- name: lock_free_batch
SELECT fence FROM {p}batch WHERE fence = :fence FOR UPDATE SKIP LOCKED

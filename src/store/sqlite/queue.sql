-- Claiming and settling.

-- name: log_position
SELECT claimed_to, last_fence, last_seq FROM {p}log WHERE one = 1

-- name: advance_log
UPDATE {p}log SET claimed_to = :claimed_to, last_fence = :last_fence WHERE one = 1

-- name: log_has_more
-- Whether anything plain may lie ahead. Looks at the next few rows only: a longer stretch of others is
-- passed over once by a claim, instead of again and again by every look.
SELECT last_seq > claimed_to + :window
    OR EXISTS (SELECT 1 FROM {p}message WHERE seq > claimed_to AND seq <= claimed_to + :window AND plain)
  FROM {p}log WHERE one = 1

-- name: next_in_log
SELECT seq, id, created_at, topic, payload, correlation_id, causation_id, headers
  FROM {p}message WHERE seq > :after AND seq <= :to AND plain ORDER BY seq LIMIT :limit

-- name: next_priority
-- The highest priority in use below a given one, and since when its first message is due: one index look-up
-- for each, so that a store without priorities pays for exactly one.
SELECT priority, due_at FROM {p}queue INDEXED BY {p}queue_ready
 WHERE state = 0 AND priority < :below ORDER BY priority DESC, due_at LIMIT 1

-- name: next_in_queue
SELECT m.seq, m.id, m.created_at, m.topic, m.payload, m.correlation_id, m.causation_id, m.headers,
       q.due_at, q.expires_at, q.attempts, q.ordering_key
  FROM {p}queue q INDEXED BY {p}queue_ready JOIN {p}message m ON m.seq = q.seq
 WHERE q.state = 0 AND q.priority = :priority AND q.due_at <= :now
   AND (q.expires_at IS NULL OR q.expires_at > :now)
 ORDER BY q.due_at, q.seq LIMIT :limit

-- name: mark_claimed
UPDATE {p}queue SET state = 2, fence = :fence, worker = :worker WHERE seq = :seq

-- name: insert_batch
INSERT INTO {p}batch (fence, owner, worker, claimed_at, lease_until, open, members, settled, starts)
VALUES (:fence, :owner, :worker, :claimed_at, :lease_until, :open, :members, :settled, :starts)

-- name: find_batch
SELECT owner, worker, claimed_at, lease_until, open, members, settled, starts FROM {p}batch WHERE fence = :fence

-- name: all_batches
SELECT fence FROM {p}batch ORDER BY fence

-- name: overdue_batches
SELECT fence FROM {p}batch WHERE lease_until <= :now ORDER BY lease_until, fence LIMIT :limit

-- name: update_batch
UPDATE {p}batch SET open = :open, settled = :settled, starts = :starts WHERE fence = :fence

-- name: delete_batch
DELETE FROM {p}batch WHERE fence = :fence

-- name: renew_batch
UPDATE {p}batch SET lease_until = :lease_until WHERE fence = :fence AND owner = :owner

-- name: open_delivery
SELECT m.topic, m.id, coalesce(q.attempts, 0) FROM {p}message m LEFT JOIN {p}queue q ON q.seq = m.seq WHERE m.seq = :seq

-- name: was_called_off
-- 6 is cancelled, 7 expired: ends that a claim does not prevent as long as it has not started.
SELECT 1 FROM {p}finished WHERE seq = :seq AND fence = :fence AND state IN (6, 7)

-- name: expiry_of
SELECT expires_at FROM {p}queue WHERE seq = :seq

-- name: finish_plain
-- A message that was never in the queue: this was its first and only delivery.
INSERT INTO {p}finished (seq, state, finished_at, started_at, attempts, fence, worker)
VALUES (:seq, :state, :now, :started_at, :attempts, :fence, :worker)

-- name: finish_queued
INSERT INTO {p}finished (seq, state, finished_at, started_at, failed_at, attempts, errors, redrives, fence,
                         priority, due_at, expires_at, worker, last_error)
SELECT seq, :state, :now, coalesce(:started_at, started_at), failed_at, attempts + :attempts, errors, redrives, fence,
       priority, due_at, expires_at, worker, last_error
  FROM {p}queue WHERE seq = :seq

-- name: delete_queued
DELETE FROM {p}queue WHERE seq = :seq RETURNING ordering_key

-- name: delete_message
DELETE FROM {p}message WHERE seq = :seq

-- name: requeue_plain
-- A message from the log that comes back, or died: from now on it has a row of its own.
INSERT INTO {p}queue (seq, state, due_at, fence, attempts, errors, started_at, failed_at, finished_at, worker, last_error,
                      parked_topic)
SELECT seq, :state, coalesce(:due_at, min(created_at, :now)), :fence, :attempts, :errors, :started_at, :failed_at, :finished_at, :worker, :error,
       CASE WHEN :state < 0 THEN topic END
  FROM {p}message WHERE seq = :seq

-- name: requeue_queued
UPDATE {p}queue
   SET state = CASE WHEN :state = 3 AND ordering_key IS NULL THEN 4 ELSE :state END,
       due_at = coalesce(:due_at, min(due_at, :now)), attempts = attempts + :attempts, errors = errors + :errors,
       started_at = coalesce(:started_at, started_at), failed_at = coalesce(:failed_at, failed_at),
       finished_at = :finished_at, last_error = coalesce(:error, last_error),
       parked_topic = CASE WHEN :state < 0 THEN (SELECT topic FROM {p}message m WHERE m.seq = {p}queue.seq) END
 WHERE seq = :seq RETURNING ordering_key

-- name: let_key_go_on
-- Makes the next waiting message of a key ready, unless another one of it is ready or parked (up to 0), runs or
-- blocks it. Two questions, since one range would lead through all that wait.
UPDATE {p}queue SET state = 0
 WHERE seq = (SELECT min(seq) FROM {p}queue WHERE ordering_key = :ordering_key AND state = 1)
   AND NOT EXISTS (SELECT 1 FROM {p}queue WHERE ordering_key = :ordering_key AND state <= 0)
   AND NOT EXISTS (SELECT 1 FROM {p}queue WHERE ordering_key = :ordering_key AND state IN (2, 3))

-- name: next_parked
-- The oldest parked message of a topic behind a given number.
SELECT seq FROM {p}queue INDEXED BY {p}queue_parked
 WHERE parked_topic = :topic AND seq > :after ORDER BY seq LIMIT 1

-- name: unpark
UPDATE {p}queue SET state = 0, parked_topic = NULL WHERE seq = :seq

-- name: next_parked_topic
-- The next topic with parked messages, and why its oldest one is: one look-up per topic, however many there are of it.
SELECT parked_topic, state FROM {p}queue INDEXED BY {p}queue_parked
 WHERE parked_topic > :after ORDER BY parked_topic, seq LIMIT 1

-- name: next_expiry
SELECT expires_at FROM {p}queue INDEXED BY {p}queue_expiry
 WHERE expires_at IS NOT NULL AND state <= 1 ORDER BY expires_at LIMIT 1

-- name: next_lease_end
SELECT lease_until FROM {p}batch ORDER BY lease_until LIMIT 1

-- name: pauses
SELECT topic, since FROM {p}paused ORDER BY topic

-- name: data_version
-- Another number each time that another connection has committed.
PRAGMA data_version

-- name: expirable
SELECT seq FROM {p}queue WHERE expires_at IS NOT NULL AND state <= 1 AND expires_at <= :now
 ORDER BY expires_at LIMIT :limit

-- name: written_ahead
-- A message is due some time after the latest instant at which it was enqueued, started or failed. If that instant is
-- still to come, the clock was set back, and the time counts from now.
SELECT seq, CASE WHEN topic = 'job.tick' THEN :now ELSE due_at - (since - :now) END
  FROM (SELECT q.seq, m.topic, q.due_at,
               max(CASE WHEN m.created_at <= q.due_at THEN m.created_at ELSE 0 END,
                   CASE WHEN q.started_at <= q.due_at THEN q.started_at ELSE 0 END,
                   CASE WHEN q.failed_at <= q.due_at THEN q.failed_at ELSE 0 END) AS since
          FROM {p}queue q JOIN {p}message m ON m.seq = q.seq
         WHERE q.state <= 1 AND q.due_at > :now) waiting
 WHERE since > :now + 2000000 AND due_at - since < since - :now LIMIT :limit

-- name: set_due
UPDATE {p}queue SET due_at = :due_at WHERE seq = :seq

-- name: bring_back_leases
UPDATE {p}batch SET lease_until = lease_until - (claimed_at - :now)
 WHERE claimed_at > :now + 2000000 AND lease_until >= claimed_at AND lease_until - claimed_at < claimed_at - :now

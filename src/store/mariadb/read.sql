-- Looking at messages, and at the tables themselves. Nothing here locks.

-- fragment: filter
m.seq > :after AND m.seq < COALESCE(:before, 9223372036854775807)
   AND (:topic IS NULL OR {{topic}} = :topic)
   AND (:topic_start IS NULL OR LEFT({{topic}}, OCTET_LENGTH(:topic_start)) = :topic_start)
   AND (:ordering_key IS NULL OR m.ordering_key = :ordering_key)
   AND (:correlation_id IS NULL OR m.correlation_id = :correlation_id)
   AND (:created_before IS NULL OR m.created_at < :created_before)

-- fragment: waits
-- A message that has arrived waits if its key is held, or an earlier one has arrived too.
(EXISTS (SELECT 1 FROM {p}key_head h WHERE h.ordering_key = q.ordering_key)
         OR EXISTS (SELECT 1 FROM {p}queue o
                     WHERE o.ordering_key = q.ordering_key AND o.place = 0 AND o.seq < q.seq))

-- fragment: effective_place
IF(q.place = 0, IF({{waits}}, 2, 1), q.place)

-- fragment: at_limit
-- Whether a message that was put aside waits for the limit of a handler.
(COALESCE((SELECT a.reason FROM {p}message m FORCE INDEX (PRIMARY)
             STRAIGHT_JOIN {p}parked a FORCE INDEX (PRIMARY) ON a.topic = {{topic}} AND a.seq = m.seq
            WHERE m.seq = q.seq), 0) = 2)

-- fragment: ready_as
-- 0 is all of them; else 1 due, 2 due later, 3 due later because it has failed.
(:ready_as = 0 OR :ready_as = CASE WHEN q.due_at <= COALESCE(:now, {{clock}}) THEN 1 WHEN q.errors = 0 THEN 2 ELSE 3 END)

-- name: seqs_of_all
SELECT m.seq FROM {p}message m
  LEFT JOIN {p}queue q ON :error IS NOT NULL AND q.seq = m.seq
  LEFT JOIN {p}finished f ON :error IS NOT NULL AND f.seq = m.seq
 WHERE {{filter}}
   AND (:error IS NULL OR INSTR(COALESCE(q.last_error, f.last_error, ''), :error) > 0)
 ORDER BY m.seq LIMIT :limit

-- name: seqs_in_queue
SELECT q.seq FROM {p}queue q FORCE INDEX (PRIMARY) STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = q.seq
 WHERE q.seq > :after AND q.place IN (0, :place) AND {{filter}}
   AND (:error IS NULL OR INSTR(COALESCE(q.last_error, ''), :error) > 0)
   AND {{effective_place}} = :place AND {{ready_as}}
 ORDER BY q.seq LIMIT :limit

-- fragment: by_place_after
{p}queue q FORCE INDEX ({p}queue_place) STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = q.seq
 WHERE q.seq > :after AND {{filter}} AND (:error IS NULL OR INSTR(COALESCE(q.last_error, ''), :error) > 0)

-- name: seqs_of_dead
-- Two walks in the order of the index, each of which ends at the limit: over both places at once it would have to read
-- and sort all of the dead.
(SELECT q.seq FROM {{by_place_after}} AND q.place = 4 ORDER BY q.seq LIMIT :limit)
 UNION ALL
(SELECT q.seq FROM {{by_place_after}} AND q.place = 5 ORDER BY q.seq LIMIT :limit)
 ORDER BY seq LIMIT :limit

-- name: seqs_put_aside
SELECT q.seq FROM {{by_place_after}} AND q.place = 9 AND {{at_limit}} = :at_limit AND {{ready_as}} ORDER BY q.seq LIMIT :limit

-- name: seqs_finished
SELECT f.seq FROM {p}finished f FORCE INDEX (PRIMARY) STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = f.seq
 WHERE f.state = :state AND f.seq > :after AND {{filter}}
   AND (:error IS NULL OR INSTR(COALESCE(f.last_error, ''), :error) > 0)
 ORDER BY f.seq LIMIT :limit

-- name: seqs_of_ready
SELECT r.seq FROM {p}ready r FORCE INDEX (PRIMARY) STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = r.seq
 WHERE r.seq > :after AND {{filter}} AND :error IS NULL
 ORDER BY r.seq LIMIT :limit

-- name: message_rows
SELECT m.seq, m.id, m.created_at, {{topic}}, m.ordering_key, m.correlation_id, m.causation_id, m.headers,
       OCTET_LENGTH(m.payload), IF(:with_payload = 1, m.payload, NULL),
       {{effective_place}}, q.urgency, q.due_at, q.expires_at, q.fence, q.attempts, q.errors, q.redrives,
       q.started_at, q.failed_at, q.finished_at, q.worker, q.last_error,
       f.state, f.finished_at, f.started_at, f.failed_at, f.attempts, f.errors, f.redrives, f.fence, f.worker, f.last_error,
       f.urgency, f.due_at, f.expires_at,
       r.seq, p.reason, q.due_at > COALESCE(:now, {{clock}})
  FROM {{list}} STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = l.seq LEFT JOIN {p}queue q ON q.seq = m.seq
       LEFT JOIN {p}finished f ON f.seq = m.seq LEFT JOIN {p}ready r ON r.seq = m.seq
       LEFT JOIN {p}parked p ON p.topic = {{topic}} AND p.seq = m.seq

-- name: count_queue
-- What waits for the limit of a handler counts as ready.
SELECT t.place, t.later, COUNT(*), MIN(t.due_at), CAST(SUM(t.failed) AS SIGNED)
  FROM (SELECT IF(q.place = 9 AND {{at_limit}}, 1, {{effective_place}}) AS place, q.due_at > :now AS later, q.due_at,
               q.errors > 0 AS failed
          FROM {p}queue q) t
 GROUP BY t.place, t.later

-- name: count_finished
-- Of the newest ones only: there may be very many.
SELECT t.state, COUNT(*) FROM (SELECT state FROM {p}finished ORDER BY seq DESC LIMIT :limit) t GROUP BY t.state

-- name: count_ready
SELECT COUNT(*) FROM (SELECT 1 FROM {p}ready LIMIT :limit) t

-- name: count_open
SELECT CAST(COALESCE(SUM(open), 0) AS SIGNED) FROM {p}batch

-- name: estimated_rows
SELECT CAST(COALESCE(MAX(table_rows), 0) AS SIGNED) FROM information_schema.tables
 WHERE table_schema = DATABASE() AND table_name = :name

-- name: numbers_given_out
-- The largest number in the table would do, until retention has removed it.
SELECT CAST(COALESCE(MAX(auto_increment), 1) AS SIGNED) - 1 FROM information_schema.tables
 WHERE table_schema = DATABASE() AND table_name = :name

-- name: oldest_ready
SELECT m.created_at FROM {p}ready r STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = r.seq ORDER BY r.seq LIMIT 1

-- name: blocked_keys
SELECT q.ordering_key, m.id, {{topic}}, q.last_error, q.finished_at,
       (SELECT COUNT(*) FROM {p}queue w WHERE w.ordering_key = q.ordering_key AND w.place IN (0, 2))
  FROM {p}queue q FORCE INDEX ({p}queue_place) STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = q.seq
 WHERE q.place = 4 ORDER BY q.finished_at, q.seq LIMIT :limit

-- name: count_blocked_keys
SELECT COUNT(*) FROM {p}queue WHERE place = 4

-- name: blocker_of
SELECT m.id FROM {p}queue q JOIN {p}message m ON m.seq = q.seq WHERE q.ordering_key = :ordering_key AND q.place = 4

-- Messages that are put aside, topics that are paused, and what an idle worker asks.

-- name: park
INSERT INTO {p}parked (topic, seq, reason)
SELECT m.topic, l.seq, l.reason
  FROM JSON_TABLE(:list, '$[*]' COLUMNS (seq BIGINT PATH '$[0]', reason TINYINT PATH '$[1]')) l
       STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = l.seq

-- name: parked_among
-- The first parked message of each of these topics, without a lock. Topics are bytes, and JSON is text: therefore in
-- hexadecimal digits.
SELECT l.number, (SELECT p.seq FROM {p}parked p FORCE INDEX (PRIMARY)
                   WHERE p.topic = UNHEX(l.topic) ORDER BY p.seq LIMIT 1)
  FROM JSON_TABLE(:list, '$[*]' COLUMNS (number FOR ORDINALITY, topic VARCHAR(510) PATH '$')) l

-- name: lock_parked
SELECT seq FROM {p}parked FORCE INDEX (PRIMARY)
 WHERE topic = :topic AND seq < :before ORDER BY seq LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: lock_parked_rows
-- Whoever cancels or expires a message locks its row in the queue first. They are passed over, not waited for: so the
-- opposite order here ends in no deadlock.
SELECT q.seq FROM {{list}} STRAIGHT_JOIN {p}queue q FORCE INDEX (PRIMARY) ON q.seq = l.seq AND q.place = 9
   FOR UPDATE SKIP LOCKED

-- name: delete_parked
DELETE p FROM {{list}} STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = l.seq
         STRAIGHT_JOIN {p}parked p FORCE INDEX (PRIMARY) ON p.topic = m.topic AND p.seq = l.seq

-- name: pause
INSERT IGNORE INTO {p}paused (topic, since) VALUES (:topic, COALESCE(:now, {{clock}}))

-- name: resume
DELETE FROM {p}paused WHERE topic = :topic

-- name: pauses
SELECT topic, since FROM {p}paused ORDER BY topic

-- name: outlook
-- One round trip, and nothing is locked. kind: 0 the time · 1 a moment at which something is to be done · 2 a topic
-- with parked messages, and why · 3 a pause, and since when. The moments and the topics are found by jumping from
-- group to group in an index, which the server does only if the groups are whole beginnings of it; a condition that
-- place equals 1 would take the place out of the GROUP BY.
SELECT 0 AS kind, '' AS topic, CAST(COALESCE(:now, {{clock}}) AS SIGNED) AS number
 UNION ALL (SELECT 1, '', 0 FROM {p}ready LIMIT 1)
 UNION ALL (SELECT 1, '', 0 FROM {p}queue FORCE INDEX ({p}queue_place) WHERE place = 0 LIMIT 1)
 UNION ALL SELECT 1, '', MIN(due_at) FROM {p}queue FORCE INDEX FOR GROUP BY ({p}queue_claim)
            WHERE place > 0 AND place < 2 GROUP BY place, urgency
 UNION ALL SELECT 1, '', MIN(expires_at) FROM {p}queue FORCE INDEX ({p}queue_expiry) WHERE place = 0
 UNION ALL SELECT 1, '', MIN(expires_at) FROM {p}queue FORCE INDEX ({p}queue_expiry) WHERE place = 1
 UNION ALL SELECT 1, '', MIN(expires_at) FROM {p}queue FORCE INDEX ({p}queue_expiry) WHERE place = 2
 UNION ALL SELECT 1, '', MIN(expires_at) FROM {p}queue FORCE INDEX ({p}queue_expiry) WHERE place = 9
 UNION ALL SELECT 1, '', MIN(lease_until) FROM {p}batch FORCE INDEX ({p}batch_lease)
 UNION ALL SELECT 2, p.topic, p.reason
             FROM (SELECT topic, MIN(seq) AS seq FROM {p}parked FORCE INDEX FOR GROUP BY (PRIMARY) GROUP BY topic) first
                  STRAIGHT_JOIN {p}parked p FORCE INDEX (PRIMARY) ON p.topic = first.topic AND p.seq = first.seq
 UNION ALL SELECT 3, topic, since FROM {p}paused

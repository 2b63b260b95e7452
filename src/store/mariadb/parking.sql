-- Messages that are put aside, topics that are paused, and what an idle worker asks.

-- name: park
INSERT INTO {p}parked (topic, seq, reason)
SELECT {{topic}}, l.seq, l.reason
  FROM JSON_TABLE(:list, '$[*]' COLUMNS (seq BIGINT PATH '$[0]', reason TINYINT PATH '$[1]')) l
       STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = l.seq
    ON DUPLICATE KEY UPDATE reason = VALUES(reason)

-- name: parked_among
-- The first parked message behind :after of each of these topics, without a lock. Topics are bytes, and JSON is text: therefore in
-- hexadecimal digits.
SELECT l.number, (SELECT p.seq FROM {p}parked p FORCE INDEX (PRIMARY)
                   WHERE p.topic = UNHEX(l.topic) AND p.seq > :after ORDER BY p.seq LIMIT 1)
  FROM JSON_TABLE(:list, '$[*]' COLUMNS (number FOR ORDINALITY, topic VARCHAR(1000) PATH '$')) l

-- name: lock_parked
SELECT seq FROM {p}parked FORCE INDEX (PRIMARY)
 WHERE topic = :topic AND seq > :after AND seq < :before ORDER BY seq LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: lock_parked_rows
-- Whoever cancels or expires a message locks its row in the queue first. They are passed over, not waited for: so the
-- opposite order here ends in no deadlock.
SELECT q.seq FROM {{list}} STRAIGHT_JOIN {p}queue q FORCE INDEX (PRIMARY) ON q.seq = l.seq AND q.place = 9
   FOR UPDATE SKIP LOCKED

-- name: delete_parked
DELETE p FROM {{list}} STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = l.seq
         STRAIGHT_JOIN {p}parked p FORCE INDEX (PRIMARY) ON p.topic = {{topic}} AND p.seq = l.seq

-- name: pause
INSERT IGNORE INTO {p}paused (topic, since) VALUES (:topic, COALESCE(:now, {{clock}}))

-- name: resume
DELETE FROM {p}paused WHERE topic = :topic

-- name: pauses
SELECT topic, since FROM {p}paused ORDER BY topic

-- name: outlook
-- One round trip, and nothing is locked. kind: 0 the time · 1 a moment at which something is to be done · 2 there are
-- parked messages · 3 a pause, and since when · 4 a moment for what is done before a claim. Each priority between the first and the last in use is looked up, mostly
-- the only one there is: the server could jump from one to the next by itself (GROUP BY), but reads all of their
-- messages instead when its statistics are out of date.
WITH RECURSIVE used (urgency, last) AS (
    SELECT MIN(urgency), MAX(urgency) FROM {p}queue FORCE INDEX ({p}queue_claim) WHERE place = 1
     UNION ALL
    SELECT urgency + 1, last FROM used WHERE urgency < last)
SELECT 0 AS kind, '' AS topic, CAST(COALESCE(:now, {{clock}}) AS SIGNED) AS number
 UNION ALL (SELECT 1, '', 0 FROM {p}ready FORCE INDEX (PRIMARY) LIMIT 1)
 UNION ALL (SELECT 4, '', 0 FROM {p}queue FORCE INDEX ({p}queue_place) WHERE place = 0 LIMIT 1)
 UNION ALL (SELECT 4, '', 0 FROM {p}stale_head FORCE INDEX (PRIMARY) LIMIT 1)
 UNION ALL SELECT 1, '', (SELECT q.due_at FROM {p}queue q FORCE INDEX ({p}queue_claim)
                           WHERE q.place = 1 AND q.urgency = used.urgency ORDER BY q.due_at LIMIT 1) FROM used
 UNION ALL SELECT 4, '', MIN(expires_at) FROM {p}queue FORCE INDEX ({p}queue_expiry) WHERE place = 0
 UNION ALL SELECT 4, '', MIN(expires_at) FROM {p}queue FORCE INDEX ({p}queue_expiry) WHERE place = 1
 UNION ALL SELECT 4, '', MIN(expires_at) FROM {p}queue FORCE INDEX ({p}queue_expiry) WHERE place = 2
 UNION ALL SELECT 4, '', MIN(expires_at) FROM {p}queue FORCE INDEX ({p}queue_expiry) WHERE place = 9
 UNION ALL SELECT 1, '', MIN(lease_until) FROM {p}batch FORCE INDEX ({p}batch_lease)
 UNION ALL (SELECT 2, '', 0 FROM {p}parked FORCE INDEX (PRIMARY) LIMIT 1)
 UNION ALL SELECT 3, topic, since FROM {p}paused

-- name: parked_topics
-- Each topic that has parked messages, and why the first of them is. A look-up for each topic, for the reason above;
-- a block, so that this is one round trip however many there are. SELECT … INTO, because it locks nothing: a subquery
-- in DEFAULT or SET would wait for whoever takes a parked message away.
BEGIN NOT ATOMIC
    DECLARE found LONGTEXT CHARACTER SET ascii DEFAULT '[';
    DECLARE last VARBINARY(500);
    SELECT MIN(topic) INTO last FROM {p}parked;
    WHILE last IS NOT NULL DO
        SET found = CONCAT(found, IF(found = '[', '"', ',"'), HEX(last), '"');
        SELECT MIN(topic) INTO last FROM {p}parked WHERE topic > last;
    END WHILE;
    SELECT UNHEX(l.topic), (SELECT p.reason FROM {p}parked p FORCE INDEX (PRIMARY)
                             WHERE p.topic = UNHEX(l.topic) ORDER BY p.seq LIMIT 1)
      FROM JSON_TABLE(CONCAT(found, ']'), '$[*]' COLUMNS (topic VARCHAR(1000) PATH '$')) l;
END

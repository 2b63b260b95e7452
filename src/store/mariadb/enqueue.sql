-- Adding and cancelling messages.

-- fragment: clock
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))

-- fragment: list
JSON_TABLE(:list, '$[*]' COLUMNS (seq BIGINT PATH '$')) l

-- fragment: topic
-- The topic of the message m: the second part is NULL unless it is longer than 255 bytes.
CONCAT(m.topic, COALESCE(m.topic_rest, ''))

-- name: database_time
-- UTC_TIMESTAMP is the start of this statement, whatever the session's time zone; SYSDATE would be an hour off
-- while clocks are set back.
SELECT {{clock}}

-- name: insert_message
-- Executed for many rows at once; each gives its number.
INSERT INTO {p}message (id_start, created_at, topic, topic_rest, ordering_key, correlation_id, causation_id, headers, payload)
VALUES (:id_start, COALESCE(:now, {{clock}}), :topic, :topic_rest, :ordering_key, :correlation_id, :causation_id, :headers,
        :payload)
RETURNING seq

-- name: add_ready
INSERT INTO {p}ready (seq) VALUES (:seq)

-- name: add_ready_list
INSERT INTO {p}ready (seq) SELECT l.seq FROM {{list}}

-- name: queue_new
INSERT INTO {p}queue (seq, place, urgency, due_at, expires_at, ordering_key)
VALUES (:seq, :place, :urgency, :due_at, :expires_at, :ordering_key)

-- name: add_own_id
INSERT INTO {p}own_id (id, seq) VALUES (:id, :seq)

-- name: open_dedup
-- Inserted first: whoever comes second with an equal key waits here for the first one's end. A row that expired in
-- 1970 is nobody's yet. INSERT IGNORE would lock a row that exists for sharing only, and two that find an expired one
-- would then wait for each other.
INSERT INTO {p}dedup (topic, dedup_key, id, seq, expires_at) VALUES (:topic, :dedup_key, '', 0, 0)
    ON DUPLICATE KEY UPDATE seq = {p}dedup.seq

-- name: find_dedup
-- A locking read, because at REPEATABLE READ another one would not see what the first enqueue wrote.
SELECT id, seq, expires_at FROM {p}dedup WHERE topic = :topic AND dedup_key = :dedup_key LOCK IN SHARE MODE

-- name: remember_dedup
UPDATE {p}dedup SET id = :id, seq = :seq, expires_at = :expires_at WHERE topic = :topic AND dedup_key = :dedup_key

-- name: find_seq
-- :hint is the number that the id's last bytes would be, had Posthorn made it.
SELECT seq FROM {p}message WHERE seq = :hint AND id = :id
 UNION ALL
SELECT seq FROM {p}own_id WHERE id = :id
 LIMIT 1

-- name: whereabouts
-- Where a message lies, without a lock: whether it waits as a plain one, its place in the queue, whether it has ended.
SELECT r.seq IS NOT NULL, q.place, q.fence, f.state
  FROM {p}message m LEFT JOIN {p}ready r ON r.seq = m.seq LEFT JOIN {p}queue q ON q.seq = m.seq
       LEFT JOIN {p}finished f ON f.seq = m.seq
 WHERE m.seq = :seq

-- name: take_one_ready
DELETE FROM {p}ready WHERE seq = :seq

-- name: lock_queued
SELECT place, ordering_key FROM {p}queue WHERE seq = :seq FOR UPDATE

-- name: batches_around
SELECT fence FROM {p}batch WHERE first_seq <= :seq AND last_seq >= :seq ORDER BY fence

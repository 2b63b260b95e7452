-- What operators and retention do.

-- name: redrive
-- The expiry is lifted: whoever redrives a message wants it to run. With a key it waits (1) until
-- `let_key_go_on` has looked which message of that key is next.
UPDATE {p}queue
   SET state = ordering_key IS NOT NULL,
       due_at = :due_at, expires_at = NULL, attempts = 0, redrives = redrives + 1, finished_at = NULL
 WHERE seq = :seq AND state >= 3 RETURNING ordering_key

-- name: delete_dead
DELETE FROM {p}queue WHERE seq = :seq AND state >= 3 RETURNING ordering_key

-- name: skip_key
UPDATE {p}queue SET state = 4 WHERE ordering_key = :ordering_key AND state = 3

-- name: pause
INSERT INTO {p}paused (topic, since) VALUES (:topic, :since) ON CONFLICT (topic) DO NOTHING

-- name: resume
DELETE FROM {p}paused WHERE topic = :topic

-- name: removable_finished
SELECT seq FROM {p}finished WHERE finished_at <= :until ORDER BY finished_at LIMIT :limit

-- name: removable_dead
SELECT seq FROM {p}queue INDEXED BY {p}queue_died WHERE state >= 3 AND finished_at <= :until ORDER BY finished_at LIMIT :limit

-- name: delete_finished
DELETE FROM {p}finished WHERE seq = :seq

-- name: forget_dedup
DELETE FROM {p}dedup WHERE (topic, dedup_key) IN
    (SELECT topic, dedup_key FROM {p}dedup WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit)

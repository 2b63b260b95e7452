-- What operators and retention do.

-- name: redrive
-- The expiry is lifted: whoever redrives a message wants it to run.
UPDATE {p}queue
   SET place = :place, due_at = :due_at, expires_at = NULL, attempts = 0, redrives = redrives + 1, finished_at = NULL
 WHERE seq = :seq

-- name: blocking_of_key
SELECT seq FROM {p}queue FORCE INDEX ({p}queue_key) WHERE ordering_key = :ordering_key AND place = 4 FOR UPDATE

-- name: ends_of_log
SELECT MIN(seq), MAX(seq) FROM {p}message

-- name: creation_from
SELECT seq, created_at FROM {p}message WHERE seq >= :seq ORDER BY seq LIMIT 1

-- name: removable_finished
-- No index over finished_at, so that ending a message is one insert. What was created after :until has not ended
-- before it, therefore the walk in seq order stops at :last.
SELECT seq FROM {p}finished WHERE seq <= :last AND finished_at <= :until ORDER BY seq LIMIT :limit
   FOR UPDATE SKIP LOCKED

-- name: delete_finished
DELETE f FROM {{list}} STRAIGHT_JOIN {p}finished f FORCE INDEX (PRIMARY) ON f.seq = l.seq

-- name: removable_dead
SELECT seq FROM {p}queue FORCE INDEX ({p}queue_place)
 WHERE place IN (4, 5) AND finished_at <= :until ORDER BY place, seq LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: removable_dedup
SELECT topic, dedup_key FROM {p}dedup FORCE INDEX ({p}dedup_expiry)
 WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: forget_dedup
DELETE FROM {p}dedup WHERE topic = :topic AND dedup_key = :dedup_key

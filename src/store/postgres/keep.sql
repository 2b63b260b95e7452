-- What operators and retention do.

-- name: redrive
-- The expiry is lifted: whoever redrives a message wants it to run. One with a key is parked, and admitted at once
-- if it is its key's head.
UPDATE {p}message
   SET state = 0, due_at = (SELECT {p}clock(:now::bigint)) + :delay::bigint, expires_at = NULL, attempts = 0, redrives = redrives + 1,
       finished_at = 0,
       place = CASE WHEN ordering_key IS NOT NULL THEN 3 WHEN :delay::bigint > 0 THEN 2 ELSE 1 END
 WHERE seq = :seq::bigint AND place = 6

-- name: delete_dead
DELETE FROM {p}message WHERE seq = ANY (:seqs::bigint[]) AND place = 6 RETURNING seq

-- name: skip_key
UPDATE {p}message SET state = 5 WHERE ordering_key = :ordering_key::text AND seq = :seq::bigint AND state = 4

-- name: remove_finished
DELETE FROM {p}message
 WHERE seq = ANY (ARRAY (SELECT seq FROM {p}message
                          WHERE state >= 6 AND finished_at <= (SELECT {p}clock(:now::bigint)) - :age::bigint
                          ORDER BY seq LIMIT :limit::bigint FOR UPDATE SKIP LOCKED))

-- name: removable_dead
SELECT seq, ordering_key FROM {p}message WHERE place = 6 AND finished_at <= (SELECT {p}clock(:now::bigint)) - :age::bigint
 ORDER BY finished_at LIMIT :limit::bigint

-- name: forget_dedup
DELETE FROM {p}dedup WHERE (topic, dedup_key) IN
    (SELECT topic, dedup_key FROM {p}dedup WHERE expires_at <= (SELECT {p}clock(:now::bigint)) ORDER BY expires_at LIMIT :limit::bigint
        FOR UPDATE SKIP LOCKED)

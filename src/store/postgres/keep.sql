-- What operators and retention do.

-- name: redrive
-- The expiry is lifted: whoever redrives a message wants it to run. One with a key has arrived again, and is admitted
-- at once if it is its key's head.
UPDATE {p}message
   SET state = 0, due_at = (SELECT {p}clock(:now::bigint)) + :delay::bigint, expires_at = 0, attempts = 0, redrives = redrives + 1,
       finished_at = 0,
       place = CASE WHEN ordering_key <> '' THEN 3 WHEN :delay::bigint > 0 THEN 2 ELSE 1 END
 WHERE seq = :seq::bigint AND place = 6
RETURNING (SELECT {p}ring())

-- name: delete_dead
DELETE FROM {p}message WHERE seq = ANY (:seqs::bigint[]) AND place = 6 RETURNING seq

-- name: skip_key
UPDATE {p}message SET state = 5 WHERE ordering_key = :ordering_key::text AND seq = :seq::bigint AND state = 4

-- fragment: until_cutoff
-- What ended so long ago was created even before. Numbers grow with the time of creation, so halving finds where the
-- search may end, and a store in which nothing is old enough is not walked through.
WITH RECURSIVE cutoff AS MATERIALIZED (SELECT {p}clock(:now::bigint) - :age::bigint AS instant),
halving (low, high) AS (
    SELECT 0::bigint, last_value FROM {p}message_seq
     UNION ALL
    SELECT CASE WHEN h.old THEN h.middle ELSE h.low END, CASE WHEN h.old THEN h.high ELSE h.middle - 1 END
      FROM (SELECT low, high, (low + high + 1) / 2 AS middle,
                   coalesce((SELECT m.created_at FROM {p}message m WHERE m.seq >= (low + high + 1) / 2 ORDER BY m.seq LIMIT 1)
                            <= (SELECT instant FROM cutoff), false) AS old
              FROM halving WHERE low < high) h),
newest AS MATERIALIZED (SELECT pg_catalog.max(low) AS seq FROM halving)

-- name: remove_finished
{{until_cutoff}}
DELETE FROM {p}message
 WHERE seq = ANY (ARRAY (SELECT seq FROM {p}message
                          WHERE seq <= (SELECT seq FROM newest)
                            AND state >= 6 AND finished_at <= (SELECT instant FROM cutoff)
                          ORDER BY seq LIMIT :limit::bigint FOR UPDATE SKIP LOCKED))

-- name: removable_dead
{{until_cutoff}}
SELECT seq, ordering_key FROM {p}message
 WHERE place = 6 AND seq <= (SELECT seq FROM newest) AND failed_at <= (SELECT instant FROM cutoff)
 ORDER BY place, seq LIMIT :limit::bigint

-- name: forget_dedup
DELETE FROM {p}dedup WHERE (topic, dedup_key) IN
    (SELECT topic, dedup_key FROM {p}dedup WHERE expires_at <= (SELECT {p}clock(:now::bigint)) ORDER BY expires_at LIMIT :limit::bigint
        FOR UPDATE SKIP LOCKED)

-- name: pause
INSERT INTO {p}paused (topic, since) VALUES (:topic::text, {p}clock(:now::bigint)) ON CONFLICT (topic) DO NOTHING

-- name: resume
DELETE FROM {p}paused WHERE topic = :topic::text RETURNING (SELECT {p}ring())

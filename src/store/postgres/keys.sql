-- Ordering keys. Whoever changes the place of a message with a key, other than by adding or claiming it, holds the
-- lock of its key's row in `key_head`; the order of locks is batch, key heads (by key), messages.

-- fragment: lowest_open
(SELECT m.seq FROM {p}message m WHERE m.ordering_key = k.ordering_key AND m.ordering_key <> '' AND m.place NOT IN (0, 6)
  ORDER BY m.ordering_key, m.seq LIMIT 1)

-- name: arrivals
SELECT seq, ordering_key FROM {p}message WHERE place = 3 ORDER BY place, seq LIMIT :limit::bigint

-- name: ensure_heads
-- A key without a head gets its lowest open message.
INSERT INTO {p}key_head (ordering_key, seq)
SELECT k.ordering_key, {{lowest_open}}
  FROM (SELECT DISTINCT ordering_key FROM unnest(:keys::text[]) AS u (ordering_key) ORDER BY 1) k
 WHERE {{lowest_open}} IS NOT NULL
    ON CONFLICT (ordering_key) DO NOTHING

-- name: lock_heads
SELECT ordering_key, seq FROM {p}key_head WHERE ordering_key = ANY (:keys::text[]) ORDER BY ordering_key FOR UPDATE

-- name: lock_heads_of
-- The heads among these messages: only a head can have been claimed.
SELECT ordering_key, seq FROM {p}key_head WHERE seq = ANY (:seqs::bigint[]) ORDER BY ordering_key FOR UPDATE

-- fragment: move_on
moved AS (
    UPDATE {p}key_head h SET seq = e.next FROM ended e WHERE h.ordering_key = e.ordering_key AND e.next IS NOT NULL),
gone AS (
    DELETE FROM {p}key_head WHERE ordering_key = ANY (ARRAY (SELECT ordering_key FROM ended WHERE next IS NULL)))
UPDATE {p}message SET place = CASE WHEN due_at <= (SELECT {p}clock(:now::bigint)) THEN 1 ELSE 2 END
 WHERE seq = ANY (ARRAY (SELECT next FROM ended)) AND place = 4

-- name: move_heads_on
-- Heads that have ended make room for the next message of their key. Needs the lock, and a view from after it.
WITH ended AS MATERIALIZED (
    SELECT k.ordering_key, {{lowest_open}} AS next
      FROM {p}key_head k LEFT JOIN {p}message o ON o.seq = k.seq
     WHERE k.ordering_key = ANY (:keys::text[]) AND (o.seq IS NULL OR (o.place IN (0, 6) AND o.state <> 4))),
{{move_on}}

-- name: move_heads_of_on
WITH ended AS MATERIALIZED (
    SELECT k.ordering_key, {{lowest_open}} AS next
      FROM {p}key_head k LEFT JOIN {p}message o ON o.seq = k.seq
     WHERE k.seq = ANY (:seqs::bigint[]) AND (o.seq IS NULL OR (o.place IN (0, 6) AND o.state <> 4))),
{{move_on}}

-- name: reconsider_head
-- A dead head that comes back competes with those behind it.
WITH ended AS MATERIALIZED (
    SELECT k.ordering_key, {{lowest_open}} AS next
      FROM {p}key_head k WHERE k.ordering_key = ANY (:keys::text[]) AND k.seq = :seq::bigint),
{{move_on}}

-- name: admit
-- Under the locks of their keys: a head may run when it is due, the others wait behind it.
WITH placed AS (
    UPDATE {p}message m
       SET place = CASE WHEN h.seq <> m.seq THEN 4 WHEN m.due_at <= (SELECT {p}clock(:now::bigint)) THEN 1 ELSE 2 END
      FROM {p}key_head h
     WHERE m.seq = ANY (:seqs::bigint[]) AND m.place = 3 AND h.ordering_key = m.ordering_key
    RETURNING m.ordering_key, m.place)
-- Whoever reads an older view than this must notice that it is one.
UPDATE {p}key_head h SET parked = h.parked + p.count
  FROM (SELECT ordering_key, count(*) FROM placed WHERE place = 4 GROUP BY ordering_key) p
 WHERE h.ordering_key = p.ordering_key

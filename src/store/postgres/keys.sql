-- Ordering keys. A transaction that changes the place of a message with a key, other than by adding or claiming it, holds
-- the lock of its key's row in `key_head`. For applications the order of locks is batch, key heads (by key), messages.
-- Workers never wait for a lock on a key head, nor on a message with a key: an application may hold it for long. They
-- leave out such a key, and a row in `stale_head` says that its head is still to be moved.

-- fragment: lowest_open
(SELECT m.seq FROM {p}message m WHERE m.ordering_key = k.ordering_key AND m.ordering_key <> '' AND m.place NOT IN (0, 6)
  ORDER BY m.ordering_key, m.seq LIMIT 1)

-- name: arrivals
-- Locked, so that they can be admitted without waiting. Those that an application has locked stay where they are.
SELECT seq, ordering_key FROM {p}message WHERE place = 3 ORDER BY place, seq LIMIT :limit::bigint FOR UPDATE SKIP LOCKED

-- name: stale_heads
SELECT DISTINCT ordering_key FROM (SELECT ordering_key FROM {p}stale_head LIMIT :limit::bigint) s

-- name: forget_stale_heads
-- Before the heads are moved: what cannot be moved is noted again.
DELETE FROM {p}stale_head WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM {p}stale_head WHERE ordering_key = ANY (:keys::text[]) FOR UPDATE SKIP LOCKED))

-- name: hold_lowest_open
-- A transaction that gives a key its head holds the key's lowest open message. A worker sees by this lock that a head may
-- be on its way, and does not wait for it.
SELECT FROM {p}message
 WHERE seq = ANY (ARRAY (SELECT {{lowest_open}} FROM (SELECT DISTINCT ordering_key FROM pg_catalog.unnest(:keys::text[]) AS u (ordering_key)) k
                          WHERE NOT EXISTS (SELECT FROM {p}key_head h WHERE h.ordering_key = k.ordering_key)))
 ORDER BY seq FOR UPDATE

-- name: ensure_free_heads
-- For a worker, which has locked arrivals up to the number :last; :keys has the key of each. A key of which another
-- transaction holds an arrival is left out, because that transaction may be adding the head.
INSERT INTO {p}key_head (ordering_key, seq)
SELECT k.ordering_key, {{lowest_open}}
  FROM (SELECT ordering_key, pg_catalog.count(*) AS locked FROM pg_catalog.unnest(:keys::text[]) AS u (ordering_key) GROUP BY 1 ORDER BY 1) k
 WHERE NOT EXISTS (SELECT FROM {p}key_head h WHERE h.ordering_key = k.ordering_key)
   AND k.locked = (SELECT pg_catalog.count(*) FROM {p}message m WHERE m.ordering_key = k.ordering_key AND m.ordering_key <> ''
                      AND m.place = 3 AND m.seq <= :last::bigint)
   AND {{lowest_open}} IS NOT NULL
    ON CONFLICT (ordering_key) DO NOTHING

-- name: lock_free_heads
SELECT ordering_key FROM {p}key_head WHERE ordering_key = ANY (:keys::text[]) ORDER BY ordering_key FOR UPDATE SKIP LOCKED

-- name: ensure_heads
-- A key without a head gets its lowest open message.
INSERT INTO {p}key_head (ordering_key, seq)
SELECT k.ordering_key, {{lowest_open}}
  FROM (SELECT DISTINCT ordering_key FROM pg_catalog.unnest(:keys::text[]) AS u (ordering_key) ORDER BY 1) k
 WHERE {{lowest_open}} IS NOT NULL
    ON CONFLICT (ordering_key) DO NOTHING

-- name: lock_heads
SELECT ordering_key, seq FROM {p}key_head WHERE ordering_key = ANY (:keys::text[]) ORDER BY ordering_key FOR UPDATE

-- name: lock_heads_of
-- The heads among these messages: only a head can have been claimed.
SELECT ordering_key, seq FROM {p}key_head WHERE seq = ANY (:seqs::bigint[]) ORDER BY ordering_key FOR UPDATE SKIP LOCKED

-- fragment: move_on
-- A head that changed since this statement began is left for later.
free AS MATERIALIZED (
    SELECT ordering_key FROM {p}key_head
     WHERE ordering_key = ANY (ARRAY (SELECT ordering_key FROM ended))
       AND (ordering_key, seq, parked) IN (SELECT ordering_key, seq, parked FROM ended) FOR UPDATE SKIP LOCKED),
held AS MATERIALIZED (
    SELECT seq FROM {p}message
     WHERE seq = ANY (ARRAY (SELECT e.next FROM ended e JOIN free f ON f.ordering_key = e.ordering_key))
       AND place NOT IN (0, 6) FOR UPDATE SKIP LOCKED),
movable AS MATERIALIZED (
    SELECT e.ordering_key, e.next FROM ended e JOIN free f ON f.ordering_key = e.ordering_key
     WHERE e.next IS NULL OR EXISTS (SELECT FROM held h WHERE h.seq = e.next)),
moved AS (
    UPDATE {p}key_head h SET seq = e.next FROM movable e WHERE h.ordering_key = e.ordering_key AND e.next IS NOT NULL),
gone AS (
    DELETE FROM {p}key_head WHERE ordering_key = ANY (ARRAY (SELECT ordering_key FROM movable WHERE next IS NULL))),
-- Another transaction holds the head, or the message that is next: a chore before a later claim moves it.
left_over AS (
    INSERT INTO {p}stale_head (ordering_key)
    SELECT ordering_key FROM ended e WHERE NOT EXISTS (SELECT FROM movable m WHERE m.ordering_key = e.ordering_key))
UPDATE {p}message SET place = CASE WHEN due_at <= (SELECT {p}clock(:now::bigint)) THEN 1 ELSE 2 END
 WHERE seq = ANY (ARRAY (SELECT next FROM movable)) AND place = 4

-- name: move_heads_on
-- Heads that have ended make room for the next message of their key. Needs the lock, and a view from after it.
WITH ended AS MATERIALIZED (
    SELECT k.ordering_key, k.seq, k.parked, {{lowest_open}} AS next
      FROM {p}key_head k LEFT JOIN {p}message o ON o.seq = k.seq
     WHERE k.ordering_key = ANY (:keys::text[]) AND (o.seq IS NULL OR (o.place IN (0, 6) AND o.state <> 4))),
{{move_on}}

-- name: move_heads_of_on
WITH ended AS MATERIALIZED (
    SELECT k.ordering_key, k.seq, k.parked, {{lowest_open}} AS next
      FROM {p}key_head k LEFT JOIN {p}message o ON o.seq = k.seq
     WHERE k.seq = ANY (:seqs::bigint[]) AND (o.seq IS NULL OR (o.place IN (0, 6) AND o.state <> 4))),
{{move_on}}

-- name: reconsider_head
-- A dead head that comes back competes with those behind it.
WITH ended AS MATERIALIZED (
    SELECT k.ordering_key, k.seq, k.parked, {{lowest_open}} AS next
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
  FROM (SELECT ordering_key, pg_catalog.count(*) FROM placed WHERE place = 4 GROUP BY ordering_key) p
 WHERE h.ordering_key = p.ordering_key

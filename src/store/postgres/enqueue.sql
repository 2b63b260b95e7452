-- Adding and cancelling messages.

-- fragment: ring
-- Once for a whole bulk, when its first row is in.
(SELECT {p}ring() WHERE :ring::boolean)

-- name: insert_plain
-- Messages that are due at once and have no key, priority or expiry. A column that is empty in all of them is NULL.
INSERT INTO {p}message (seq, created_at, due_at, id, topic, correlation_id, causation_id, headers, payload)
SELECT n.seq, c.now, c.now, {p}numbered_id(n.id_start, n.seq), n.topic, coalesce(n.correlation_id, ''),
       coalesce(n.causation_id, ''), coalesce(n.headers, ''), n.payload
  FROM (SELECT {p}clock(:now::bigint) AS now OFFSET 0) c,
       LATERAL (SELECT {p}next_number() AS seq, u.*
                  FROM unnest(:id_starts::text[], :topics::text[], :correlation_ids::text[], :causation_ids::text[],
                              :headers::text[], :payloads::bytea[])
                       AS u (id_start, topic, correlation_id, causation_id, headers, payload)) n
RETURNING seq, id, {{ring}}

-- name: insert_one_plain
-- While somebody sleeps it is handed over at the commit, or rings then; see hand_over() in the migrations.
INSERT INTO {p}message (seq, created_at, due_at, id, topic, correlation_id, causation_id, headers, payload)
SELECT n.seq, n.now, n.now, {p}numbered_id(:id_start::text, n.seq), :topic::text, :correlation_id::text, :causation_id::text,
       :headers::text, :payload::bytea
  FROM (SELECT {p}next_number() AS seq, {p}clock(:now::bigint) AS now) n
RETURNING seq, id, CASE WHEN :ring::boolean THEN {p}ring_for(seq) END

-- name: insert_any
-- A message with an id that exists already is left out; the caller counts.
INSERT INTO {p}message (seq, created_at, due_at, place, id, own_id, priority, expires_at, topic, ordering_key, correlation_id,
                        causation_id, headers, payload)
SELECT n.seq, n.now, n.due_at,
       CASE WHEN n.ordering_key <> '' THEN 3 WHEN n.due_at > n.now THEN 2
            WHEN n.priority <> 0 OR n.expires_at <> 0 THEN 1 ELSE 0 END,
       coalesce(n.id, {p}numbered_id(n.id_start, n.seq)), n.id IS NOT NULL, n.priority, n.expires_at, n.topic, n.ordering_key,
       coalesce(n.correlation_id, ''), coalesce(n.causation_id, ''), coalesce(n.headers, ''), n.payload
  FROM (SELECT coalesce(u.seq, {p}next_number()) AS seq, c.now, greatest(c.now, coalesce(u.due_at, c.now + u.delay, c.now)) AS due_at,
               coalesce(u.expires_at, c.now + u.expires_after, 0) AS expires_at, u.id_start, u.id, u.priority, u.topic,
               u.ordering_key, u.correlation_id, u.causation_id, u.headers, u.payload
          FROM (SELECT {p}clock(:now::bigint) AS now OFFSET 0) c,
               unnest(:seqs::bigint[], :id_starts::text[], :ids::uuid[], :priorities::bigint[], :delays::bigint[], :due_ats::bigint[],
                      :expires_afters::bigint[], :expires_ats::bigint[], :topics::text[], :ordering_keys::text[],
                      :correlation_ids::text[], :causation_ids::text[], :headers::text[], :payloads::bytea[])
               AS u (seq, id_start, id, priority, delay, due_at, expires_after, expires_at, topic, ordering_key, correlation_id,
                     causation_id, headers, payload)) n
 WHERE n.id IS NULL
    OR NOT EXISTS (SELECT FROM {p}message m
                    WHERE m.seq = ('x' || pg_catalog.right(pg_catalog.replace(n.id::text, '-', ''), 10))::bit(40)::bigint AND m.id = n.id)
    ON CONFLICT (id) WHERE own_id DO NOTHING
RETURNING seq, id, {{ring}}

-- name: insert_deduplicated
-- One message, unless its topic and key are known and their window is open: then no row comes back.
WITH n AS MATERIALIZED (
    SELECT coalesce(:seq::bigint, {p}next_number()) AS seq, {p}clock(:now::bigint) AS now, :id::uuid AS own_id),
d AS (
    INSERT INTO {p}dedup AS known (topic, dedup_key, id, seq, expires_at)
    SELECT :topic::text, :dedup_key::text, coalesce(n.own_id, {p}numbered_id(:id_start::text, n.seq)), n.seq,
           n.now + :dedup_window::bigint
      FROM n
        ON CONFLICT (topic, dedup_key)
        DO UPDATE SET id = excluded.id, seq = excluded.seq, expires_at = excluded.expires_at
         WHERE known.expires_at <= (SELECT now FROM n)
    RETURNING known.seq, known.id),
m AS (
    INSERT INTO {p}message (seq, created_at, due_at, place, id, own_id, priority, expires_at, topic, ordering_key,
                            correlation_id, causation_id, headers, payload)
    SELECT d.seq, n.now, t.due_at,
           CASE WHEN :ordering_key::text <> '' THEN 3 WHEN t.due_at > n.now THEN 2
                WHEN :priority::bigint <> 0 OR t.expires_at <> 0 THEN 1 ELSE 0 END,
           d.id, n.own_id IS NOT NULL, :priority::bigint, t.expires_at, :topic::text, :ordering_key::text,
           :correlation_id::text, :causation_id::text, :headers::text, :payload::bytea
      FROM d, n,
           LATERAL (SELECT greatest(n.now, coalesce(:due_at::bigint, n.now + :delay::bigint, n.now)) AS due_at,
                           coalesce(:expires_at::bigint, n.now + :expires_after::bigint, 0) AS expires_at) t
     WHERE n.own_id IS NULL
        OR NOT EXISTS (SELECT FROM {p}message m
                        WHERE m.seq = ('x' || pg_catalog.right(pg_catalog.replace(n.own_id::text, '-', ''), 10))::bit(40)::bigint AND m.id = n.own_id)
        ON CONFLICT (id) WHERE own_id DO NOTHING
    RETURNING seq, id)
SELECT d.seq, d.id, EXISTS (SELECT FROM m), {{ring}} FROM d

-- name: draw_numbers
-- For a bulk whose messages are not added in their own order.
SELECT {p}next_number() FROM pg_catalog.generate_series(1, :count::bigint)

-- name: find_dedup
SELECT id, seq FROM {p}dedup WHERE topic = :topic::text AND dedup_key = :dedup_key::text

-- name: find_message
-- :hint is the number that the id's last bytes would be, had Posthorn made it.
SELECT seq, state, fence, ordering_key FROM {p}message WHERE seq = :hint::bigint AND id = :id::uuid
 UNION ALL
SELECT seq, state, fence, ordering_key FROM {p}message WHERE id = :id::uuid AND own_id
 LIMIT 1

-- name: call_off
-- Ends a message that nobody has started; `fence` is 0 where nobody has claimed it either.
UPDATE {p}message
   SET state = :state::bigint, place = 0, finished_at = (SELECT {p}clock(:now::bigint))
 WHERE seq = ANY (:seqs::bigint[]) AND state = :from_state::bigint AND (:from_state::bigint = 0 OR fence = :fence::bigint)
RETURNING seq, ordering_key

-- name: leave_batch
UPDATE {p}batch SET open = open - :count::bigint WHERE fence = :fence::bigint AND open > :count::bigint

-- name: end_batch
DELETE FROM {p}batch WHERE fence = :fence::bigint AND open = :count::bigint

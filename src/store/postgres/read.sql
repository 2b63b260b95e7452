-- Looking at messages, and at the tables themselves.

-- fragment: head
coalesce((SELECT h.seq FROM {p}key_head h WHERE h.ordering_key = m.ordering_key),
         (SELECT o.seq FROM {p}message o WHERE o.ordering_key = m.ordering_key AND o.ordering_key <> ''
             AND o.place NOT IN (0, 6) ORDER BY o.ordering_key, o.seq LIMIT 1))

-- fragment: waits
(m.place = 4 OR (m.place = 3 AND m.seq <> {{head}}))

-- fragment: filter
m.seq > :after::bigint AND m.seq < coalesce(:before::bigint, 9223372036854775807)
   AND (:topic::text IS NULL OR m.topic = :topic::text)
   AND (:topic_start::text IS NULL OR pg_catalog.starts_with(m.topic, :topic_start::text))
   AND (:ordering_key::text IS NULL OR m.ordering_key = :ordering_key::text)
   AND (:correlation_id::text IS NULL OR m.correlation_id = :correlation_id::text)
   AND (:created_before::bigint IS NULL OR m.created_at < :created_before::bigint)
   AND (:error::text IS NULL OR position(:error::text IN m.last_error) > 0)

-- fragment: ready_as
-- 0 is all of them; else 1 due, 2 due later, 3 due later because it has failed.
(:ready_as::bigint = 0 OR :ready_as::bigint = CASE WHEN m.due_at <= (SELECT {p}clock(:now::bigint)) THEN 1 WHEN m.errors = 0 THEN 2 ELSE 3 END)

-- name: seqs_of_all
SELECT m.seq FROM {p}message m WHERE {{filter}} ORDER BY m.seq LIMIT :limit::bigint

-- name: seqs_in_state
SELECT m.seq FROM {p}message m WHERE m.state = :state::bigint AND {{filter}} ORDER BY m.seq LIMIT :limit::bigint

-- name: seqs_of_plain
SELECT m.seq FROM {p}message m
 WHERE m.seq > (SELECT low FROM {p}mark) AND m.state = 0 AND m.place = 0 AND {{filter}}
 ORDER BY m.seq LIMIT :limit::bigint

-- name: seqs_in_places
-- Each place is a list by number in the index; the first of each list are put together. (With a plain = the server may take
-- the order of numbers for as good, and walk past all other places.)
SELECT found.seq
  FROM pg_catalog.unnest(:places::bigint[]) AS p (place),
       LATERAL (SELECT m.seq FROM {p}message m
                 WHERE m.place <> 0 AND m.place >= p.place AND m.place <= p.place
                   AND {{waits}} = :waits::boolean AND {{ready_as}} AND {{filter}}
                 ORDER BY m.place, m.seq LIMIT :limit::bigint) found
 ORDER BY found.seq LIMIT :limit::bigint

-- name: seqs_of_claimed
SELECT m.seq FROM {p}batch b,
       LATERAL (SELECT * FROM {p}message p WHERE p.seq BETWEEN b.plain_from AND b.plain_to AND p.place = 0
                 UNION ALL
                SELECT * FROM {p}message o WHERE o.seq = ANY (b.others)) m
 WHERE m.fence = b.fence AND m.state IN (2, 3) AND {{filter}}
 ORDER BY m.seq LIMIT :limit::bigint

-- name: records
SELECT m.seq, m.id, m.created_at, m.due_at, m.expires_at, m.fence, m.started_at, m.finished_at, m.failed_at, m.attempts, m.state,
       {{waits}}, coalesce((SELECT w.name FROM {p}worker w WHERE w.id = m.worker), ''), m.priority, m.errors, m.redrives, m.topic, m.ordering_key, m.correlation_id, m.causation_id, m.headers,
       m.last_error, pg_catalog.octet_length(m.payload), CASE WHEN :with_payload::boolean THEN m.payload END,
       (SELECT b.lease_until FROM {p}batch b WHERE b.fence = m.fence AND m.state IN (2, 3)), m.place,
       m.due_at > (SELECT {p}clock(:now::bigint))
  FROM {p}message m WHERE m.seq = ANY (:seqs::bigint[]) ORDER BY m.seq

-- name: count_queue
-- The place 9 is that of messages that wait for a handler's limit. (Two parts, so that each may use an index.)
SELECT {{waits}}, m.due_at > (SELECT {p}clock(:now::bigint)), pg_catalog.count(*), pg_catalog.min(m.due_at), pg_catalog.count(*) FILTER (WHERE m.errors > 0)
  FROM {p}message m WHERE m.place BETWEEN 1 AND 4 GROUP BY 1, 2
 UNION ALL
SELECT false, m.due_at > (SELECT {p}clock(:now::bigint)), pg_catalog.count(*), pg_catalog.min(m.due_at), pg_catalog.count(*) FILTER (WHERE m.errors > 0)
  FROM {p}message m WHERE m.place = 9 GROUP BY 1, 2

-- name: count_parked
SELECT pg_catalog.count(*) FROM {p}message WHERE place IN (7, 8)

-- name: count_dead
SELECT pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE state = 4) FROM {p}message WHERE place = 6

-- name: count_plain
-- At most :limit are counted. The oldest is the first.
SELECT pg_catalog.count(*), pg_catalog.min(due_at),
       (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {p}message_seq) - (SELECT low FROM {p}mark)
  FROM (SELECT due_at FROM {p}message WHERE seq > (SELECT low FROM {p}mark) AND state = 0 AND place = 0
         ORDER BY seq LIMIT :limit::bigint) ahead

-- name: count_open
SELECT coalesce(pg_catalog.sum(open), 0)::bigint FROM {p}batch

-- name: count_finished
SELECT state, pg_catalog.count(*) FROM {p}message WHERE state >= 6 GROUP BY 1

-- name: table_size
-- How many numbers have been given out, and how many rows the server believes there are.
SELECT CASE WHEN is_called THEN last_value ELSE 0 END, (SELECT reltuples::bigint FROM pg_catalog.pg_class WHERE oid = '{p}message'::regclass::oid) FROM {p}message_seq

-- name: time_now
SELECT {p}clock(:now::bigint)

-- name: blocked_keys
SELECT m.ordering_key, m.id, m.topic, m.last_error, m.finished_at,
       (SELECT pg_catalog.count(*) FROM {p}message w WHERE w.ordering_key = m.ordering_key AND w.ordering_key <> ''
           AND w.place NOT IN (0, 6))
  FROM {p}message m WHERE m.place = 6 AND m.state = 4 ORDER BY m.finished_at LIMIT :limit::bigint

-- name: blocker_of
SELECT m.id, m.seq FROM {p}key_head h JOIN {p}message m ON m.seq = h.seq
 WHERE h.ordering_key = :ordering_key::text AND m.state = 4

-- name: outlook
-- What an idle worker has to know, in rows of three kinds: 0 whether something is to be done, and when it will be; 1 a
-- topic with messages put aside, and why its first one is; 2 a paused topic. Topics are skipped through, each with one
-- look at the index, however many of their messages there are. Without :arrivals, what chores had to leave undone a moment
-- ago does not count; it is looked at again a little later.
WITH RECURSIVE clock AS MATERIALIZED (SELECT {p}clock(:now::bigint) AS now),
soonest AS MATERIALIZED (
    SELECT least((SELECT due_at FROM {p}message WHERE place = 2 ORDER BY due_at LIMIT 1),
                 CASE WHEN :arrivals::boolean THEN
                 (SELECT expires_at FROM {p}message WHERE expires_at <> 0 AND place NOT IN (0, 5, 6) ORDER BY expires_at LIMIT 1) END,
                 (SELECT lease_until FROM {p}batch ORDER BY lease_until LIMIT 1)) AS instant),
aside (topic, place) AS (
    (SELECT topic, place FROM {p}message WHERE place >= 7 ORDER BY topic, seq LIMIT 1)
     UNION ALL
    SELECT next.topic, next.place
      FROM aside a,
           LATERAL (SELECT m.topic, m.place FROM {p}message m WHERE m.place >= 7 AND m.topic > a.topic
                     ORDER BY m.topic, m.seq LIMIT 1) next)
SELECT 0::bigint, '',
       (s.instant <= c.now OR (:arrivals::boolean AND {{has_arrivals}})
        OR EXISTS (SELECT FROM {p}message WHERE place = 1 AND due_at <= c.now)
        OR EXISTS (SELECT FROM {p}message WHERE seq > greatest(CASE WHEN {{tables}} = :tables::bigint THEN :low::bigint END, (SELECT low FROM {p}mark)) AND state = 0 AND place = 0))::integer::bigint,
       least(s.instant - c.now, CASE WHEN NOT :arrivals::boolean THEN 100000 END)
  FROM soonest s, clock c
 UNION ALL
SELECT 1, topic, place, NULL FROM aside
 UNION ALL
(SELECT 2, topic, since, NULL FROM {p}paused ORDER BY topic)

-- name: pauses
SELECT topic, since FROM {p}paused ORDER BY topic

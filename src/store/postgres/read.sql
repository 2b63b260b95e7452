-- Looking at messages, and at the tables themselves.

-- fragment: head
coalesce((SELECT h.seq FROM {p}key_head h WHERE h.ordering_key = m.ordering_key),
         (SELECT o.seq FROM {p}message o WHERE o.ordering_key = m.ordering_key AND o.ordering_key IS NOT NULL
             AND o.place BETWEEN 1 AND 5 ORDER BY o.ordering_key, o.seq LIMIT 1))

-- fragment: waits
(m.place = 4 OR (m.place = 3 AND m.seq <> {{head}}))

-- fragment: filter
m.seq > :after::bigint
   AND (:topic::text IS NULL OR m.topic = :topic::text)
   AND (:topic_start::text IS NULL OR starts_with(m.topic, :topic_start::text))
   AND (:ordering_key::text IS NULL OR m.ordering_key = :ordering_key::text)
   AND (:created_before::bigint IS NULL OR m.created_at < :created_before::bigint)
   AND (:error::text IS NULL OR position(:error::text IN coalesce(m.last_error, '')) > 0)

-- name: seqs_of_all
SELECT m.seq FROM {p}message m WHERE {{filter}} ORDER BY m.seq LIMIT :limit::bigint

-- name: seqs_in_state
SELECT m.seq FROM {p}message m WHERE m.state = :state::bigint AND {{filter}} ORDER BY m.seq LIMIT :limit::bigint

-- name: seqs_of_plain
SELECT m.seq FROM {p}message m
 WHERE m.seq > (SELECT low FROM {p}mark) AND m.state = 0 AND m.place = 0 AND {{filter}}
 ORDER BY m.seq LIMIT :limit::bigint

-- name: seqs_in_queue
SELECT m.seq FROM {p}message m
 WHERE m.place BETWEEN 1 AND 5 AND m.place <= 4 AND {{waits}} = :waits::boolean AND {{filter}}
 ORDER BY m.seq LIMIT :limit::bigint

-- name: seqs_of_claimed
SELECT m.seq FROM {p}batch b,
       LATERAL (SELECT * FROM {p}message p WHERE p.seq BETWEEN b.plain_from AND b.plain_to AND p.place = 0
                 UNION ALL
                SELECT * FROM {p}message o WHERE o.seq = ANY (b.others)) m
 WHERE m.fence = b.fence AND m.state IN (2, 3) AND {{filter}}
 ORDER BY m.seq LIMIT :limit::bigint

-- name: seqs_of_dead
SELECT m.seq FROM {p}message m WHERE m.place = 6 AND {{filter}} ORDER BY m.seq LIMIT :limit::bigint

-- name: records
SELECT m.seq, m.id, m.created_at, m.due_at, m.expires_at, m.fence, m.started_at, m.finished_at, m.failed_at, m.attempts, m.state,
       {{waits}}, m.worker, m.priority, m.errors, m.redrives, m.topic, m.ordering_key, m.correlation_id, m.causation_id, m.headers,
       m.last_error, octet_length(m.payload), CASE WHEN :with_payload::boolean THEN m.payload END,
       (SELECT b.lease_until FROM {p}batch b WHERE b.fence = m.fence AND m.state IN (2, 3))
  FROM {p}message m WHERE m.seq = ANY (:seqs::bigint[]) ORDER BY m.seq

-- name: count_queue
SELECT {{waits}}, m.due_at > (SELECT {p}clock(:now::bigint)), count(*), min(m.due_at)
  FROM {p}message m WHERE m.place BETWEEN 1 AND 5 AND m.place <= 4 GROUP BY 1, 2

-- name: count_dead
SELECT count(*), count(*) FILTER (WHERE state = 4) FROM {p}message WHERE place = 6

-- name: count_plain
-- At most :limit are counted. The oldest is the first.
SELECT count(*), min(due_at),
       (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {p}message_seq) - (SELECT low FROM {p}mark)
  FROM (SELECT due_at FROM {p}message WHERE seq > (SELECT low FROM {p}mark) AND state = 0 AND place = 0
         ORDER BY seq LIMIT :limit::bigint) ahead

-- name: count_open
SELECT coalesce(sum(open), 0)::bigint FROM {p}batch

-- name: count_finished
SELECT state, count(*) FROM {p}message WHERE state >= 6 GROUP BY 1

-- name: table_size
-- How many rows there are at most, and how many the server believes there are.
SELECT last_value, (SELECT reltuples::bigint FROM pg_class WHERE oid = '{p}message'::regclass) FROM {p}message_seq

-- name: time_now
SELECT {p}clock(:now::bigint)

-- name: blocked_keys
SELECT m.ordering_key, m.id, m.topic, m.last_error, m.finished_at,
       (SELECT count(*) FROM {p}message w WHERE w.ordering_key = m.ordering_key AND w.ordering_key IS NOT NULL
           AND w.place BETWEEN 1 AND 5)
  FROM {p}message m WHERE m.place = 6 AND m.state = 4 ORDER BY m.finished_at LIMIT :limit::bigint

-- name: blocker_of
SELECT m.id, m.seq FROM {p}key_head h JOIN {p}message m ON m.seq = h.seq
 WHERE h.ordering_key = :ordering_key::text AND m.state = 4

-- Looking at messages, and at the tables themselves.

-- fragment: filter
m.seq > :after AND m.seq < coalesce(:before, 9223372036854775807)
   AND (:topic IS NULL OR m.topic = :topic)
   AND (:topic_start IS NULL OR substr(m.topic, 1, length(:topic_start)) = :topic_start)
   AND (:ordering_key IS NULL OR m.ordering_key = :ordering_key)
   AND (:correlation_id IS NULL OR m.correlation_id = :correlation_id)
   AND (:created_before IS NULL OR m.created_at < :created_before)

-- name: seqs_of_all
SELECT m.seq FROM {p}message m
  LEFT JOIN {p}queue q ON :error IS NOT NULL AND q.seq = m.seq
  LEFT JOIN {p}finished f ON :error IS NOT NULL AND f.seq = m.seq
 WHERE {{filter}}
   AND (:error IS NULL OR instr(coalesce(q.last_error, f.last_error, ''), :error) > 0)
 ORDER BY m.seq LIMIT :limit

-- name: seqs_in_queue
-- :ready_as is 0 for all; else 1 due, 2 due later, 3 due later because it has failed.
SELECT m.seq FROM {p}queue q CROSS JOIN {p}message m ON m.seq = q.seq
 WHERE q.state BETWEEN :low AND :high AND q.seq > :after AND {{filter}}
   AND (:ready_as = 0 OR :ready_as = CASE WHEN q.due_at <= :now THEN 1 WHEN q.errors = 0 THEN 2 ELSE 3 END)
   AND (:error IS NULL OR instr(coalesce(q.last_error, ''), :error) > 0)
 ORDER BY q.seq LIMIT :limit

-- name: seqs_of_dead
-- As above, over the index of the dead alone.
SELECT q.seq FROM {p}queue q INDEXED BY {p}queue_dead CROSS JOIN {p}message m ON m.seq = q.seq
 WHERE q.state >= 3 AND q.seq > :after AND {{filter}}
   AND (:error IS NULL OR instr(coalesce(q.last_error, ''), :error) > 0)
 ORDER BY q.seq LIMIT :limit

-- name: seqs_finished
SELECT m.seq FROM {p}finished f CROSS JOIN {p}message m ON m.seq = f.seq
 WHERE f.state = :state AND f.seq > :after AND {{filter}}
   AND (:error IS NULL OR instr(coalesce(f.last_error, ''), :error) > 0)
 ORDER BY f.seq LIMIT :limit

-- name: seqs_in_log
SELECT m.seq FROM {p}message m
 WHERE m.seq > (SELECT claimed_to FROM {p}log WHERE one = 1) AND m.plain AND {{filter}} AND :error IS NULL
 ORDER BY m.seq LIMIT :limit

-- name: message_row
SELECT m.id, m.created_at, m.topic, m.ordering_key, m.correlation_id, m.causation_id, m.headers, length(m.payload),
       CASE WHEN :with_payload THEN m.payload END,
       q.state, q.priority, q.due_at, q.expires_at, q.fence, q.attempts, q.errors, q.redrives,
       q.started_at, q.failed_at, q.finished_at, q.worker, q.last_error,
       f.state, f.finished_at, f.started_at, f.failed_at, f.attempts, f.errors, f.redrives, f.fence, f.worker, f.last_error,
       f.priority, f.due_at, f.expires_at,
       (SELECT claimed_to FROM {p}log WHERE one = 1)
  FROM {p}message m LEFT JOIN {p}queue q ON q.seq = m.seq LEFT JOIN {p}finished f ON f.seq = m.seq
 WHERE m.seq = :seq

-- name: count_queue
SELECT state, due_at > :now, count(*), min(due_at), sum(errors > 0) FROM {p}queue GROUP BY 1, 2

-- name: count_finished
SELECT state, count(*) FROM {p}finished GROUP BY 1

-- name: count_open
SELECT coalesce(sum(open), 0) FROM {p}batch

-- name: count_log
SELECT count(*) FROM {p}message WHERE seq > (SELECT claimed_to FROM {p}log WHERE one = 1) AND plain

-- name: log_ahead
-- How many numbers lie ahead of the log's position, how many of them are known not to wait there, and how many have been
-- given out.
SELECT last_seq - claimed_to,
       (SELECT count(*) FROM {p}queue WHERE seq > claimed_to)
     + (SELECT count(*) FROM {p}finished WHERE seq > claimed_to),
       last_seq
  FROM {p}log WHERE one = 1

-- name: oldest_in_log
SELECT created_at FROM {p}message
 WHERE seq > (SELECT claimed_to FROM {p}log WHERE one = 1) AND plain ORDER BY seq LIMIT 1

-- name: blocked_keys
SELECT q.ordering_key, m.id, m.topic, q.last_error, q.finished_at,
       (SELECT count(*) FROM {p}queue w WHERE w.ordering_key = q.ordering_key AND w.state = 1)
  FROM {p}queue q JOIN {p}message m ON m.seq = q.seq
 WHERE q.state = 3 AND q.state >= 3 ORDER BY q.finished_at LIMIT :limit

-- name: count_blocked_keys
SELECT count(*) FROM {p}queue WHERE state = 3 AND state >= 3

-- name: blocker_of
SELECT m.id FROM {p}queue q JOIN {p}message m ON m.seq = q.seq
 WHERE q.ordering_key = :ordering_key AND q.state = 3

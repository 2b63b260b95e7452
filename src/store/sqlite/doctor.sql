-- What a diagnosis asks. Each answers with a number that should be 0.

-- name: claimed_without_batch
SELECT count(*) FROM {p}queue q WHERE q.state = 2 AND NOT EXISTS (SELECT 1 FROM {p}batch b WHERE b.fence = q.fence)

-- name: queued_without_message
SELECT (SELECT count(*) FROM {p}queue q WHERE NOT EXISTS (SELECT 1 FROM {p}message m WHERE m.seq = q.seq))
     + (SELECT count(*) FROM {p}finished f WHERE NOT EXISTS (SELECT 1 FROM {p}message m WHERE m.seq = f.seq))

-- name: queued_and_finished
SELECT count(*) FROM {p}queue q JOIN {p}finished f ON f.seq = q.seq

-- name: unaccounted
-- Behind the log's position every message is in the queue, finished, or a member of a batch.
SELECT count(*) FROM {p}message m
 WHERE m.seq <= (SELECT claimed_to FROM {p}log WHERE one = 1)
   AND NOT EXISTS (SELECT 1 FROM {p}queue q WHERE q.seq = m.seq)
   AND NOT EXISTS (SELECT 1 FROM {p}finished f WHERE f.seq = m.seq)

-- name: waiting_without_reason
SELECT count(*) FROM {p}queue q
 WHERE q.state = 1 AND NOT EXISTS (SELECT 1 FROM {p}queue o WHERE o.ordering_key = q.ordering_key
                                     AND (o.state <= 0 OR o.state IN (2, 3)))
   AND NOT EXISTS (SELECT 1 FROM {p}join_member m WHERE m.seq = q.seq AND m.role IN (1, 2) AND m.state = 0)

-- name: parked_without_topic
-- A row names its topic exactly as long as it is parked.
SELECT count(*) FROM {p}queue WHERE (state < 0) <> (parked_topic IS NOT NULL)

-- name: inbox_astray
-- What came from outside and waits has a message, whose end is followed.
SELECT count(*) FROM {p}inbox i
 WHERE i.state = 0 AND i.seq IS NOT NULL
   AND (NOT EXISTS (SELECT 1 FROM {p}message m WHERE m.seq = i.seq)
     OR NOT EXISTS (SELECT 1 FROM {p}join_member j WHERE j.number = 0 AND j.role = 3 AND j.seq = i.seq))

-- name: from_the_future
SELECT count(*) FROM (SELECT created_at FROM {p}message ORDER BY seq DESC LIMIT 1000) WHERE created_at > :limit_time

-- name: missing_indexes
SELECT 28 - count(*) FROM sqlite_schema WHERE type = 'index' AND name IN
    ('{p}message_id', '{p}queue_ready', '{p}queue_key', '{p}queue_expiry', '{p}queue_dead', '{p}queue_died',
     '{p}queue_parked', '{p}finished_at', '{p}batch_lease', '{p}dedup_expiry', '{p}joins_id', '{p}joins_state',
     '{p}joins_group', '{p}joins_ended', '{p}join_member_seq', '{p}inbox_id', '{p}inbox_seq', '{p}inbox_state',
     '{p}inbox_done', '{p}command_key_expiry', '{p}job_name', '{p}job_tick', '{p}job_run_instant', '{p}job_run_id',
     '{p}job_run_job', '{p}job_run_seq', '{p}job_run_open', '{p}job_run_ended')

-- name: overdue_batch_count
SELECT count(*) FROM {p}batch WHERE lease_until <= :now

-- name: fences_ahead
-- Leases whose fence is larger than the last one that was given.
SELECT count(*) FROM {p}lease WHERE fence > coalesce((SELECT last FROM {p}lease_fence WHERE one = 1), 0)

-- What a diagnosis asks. Each answers with a number that should be 0, unless it says otherwise.

-- name: claimed_without_batch
SELECT COUNT(*) FROM {p}queue q WHERE q.place = 3 AND NOT EXISTS (SELECT 1 FROM {p}batch b WHERE b.fence = q.fence)

-- name: rows_without_message
SELECT (SELECT COUNT(*) FROM {p}queue q WHERE NOT EXISTS (SELECT 1 FROM {p}message m WHERE m.seq = q.seq))
     + (SELECT COUNT(*) FROM {p}ready r WHERE NOT EXISTS (SELECT 1 FROM {p}message m WHERE m.seq = r.seq))
     + (SELECT COUNT(*) FROM {p}finished f WHERE NOT EXISTS (SELECT 1 FROM {p}message m WHERE m.seq = f.seq))

-- name: double_state
SELECT (SELECT COUNT(*) FROM {p}queue q JOIN {p}finished f ON f.seq = q.seq)
     + (SELECT COUNT(*) FROM {p}ready r JOIN {p}finished f ON f.seq = r.seq)
     + (SELECT COUNT(*) FROM {p}ready r JOIN {p}queue q ON q.seq = r.seq)

-- name: unaccounted
-- What is in none of the tables must be an open member of a batch.
SELECT COUNT(*) FROM {p}message m
 WHERE NOT EXISTS (SELECT 1 FROM {p}queue q WHERE q.seq = m.seq)
   AND NOT EXISTS (SELECT 1 FROM {p}ready r WHERE r.seq = m.seq)
   AND NOT EXISTS (SELECT 1 FROM {p}finished f WHERE f.seq = m.seq)

-- name: keys_astray
-- Heads that are not where they should be, messages that wait behind no other, and second heads. A stale head is moved on
-- before the next claim.
SELECT (SELECT COUNT(*) FROM {p}key_head h
         WHERE NOT EXISTS (SELECT 1 FROM {p}stale_head s WHERE s.ordering_key = h.ordering_key)
           AND NOT EXISTS (SELECT 1 FROM {p}queue q
                            WHERE q.seq = h.seq AND q.ordering_key = h.ordering_key AND q.place IN (1, 3, 4, 9)))
     + (SELECT COUNT(*) FROM {p}queue q
         WHERE q.place = 2 AND NOT EXISTS (SELECT 1 FROM {p}join_member j WHERE j.seq = q.seq AND j.role IN (1, 2) AND j.state = 0)
           AND NOT EXISTS (SELECT 1 FROM {p}key_head h WHERE h.ordering_key = q.ordering_key))
     + (SELECT COUNT(*) FROM {p}queue q
         WHERE q.ordering_key IS NOT NULL AND q.place IN (1, 3, 4, 9)
           AND NOT EXISTS (SELECT 1 FROM {p}key_head h WHERE h.ordering_key = q.ordering_key AND h.seq = q.seq))

-- name: parked_astray
SELECT (SELECT COUNT(*) FROM {p}queue q STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = q.seq
         WHERE q.place = 9 AND NOT EXISTS (SELECT 1 FROM {p}parked p WHERE p.topic = {{topic}} AND p.seq = q.seq))
     + (SELECT COUNT(*) FROM {p}parked p
         WHERE NOT EXISTS (SELECT 1 FROM {p}queue q WHERE q.seq = p.seq AND q.place = 9))

-- name: inbox_astray
-- What came from outside and waits has a message, whose end is followed.
SELECT COUNT(*) FROM {p}inbox i
 WHERE i.state = 0 AND i.seq IS NOT NULL
   AND (NOT EXISTS (SELECT 1 FROM {p}message m WHERE m.seq = i.seq)
     OR NOT EXISTS (SELECT 1 FROM {p}join_member j WHERE j.number = 0 AND j.role = 3 AND j.seq = i.seq))

-- name: from_the_future
SELECT COUNT(*) FROM (SELECT created_at FROM {p}message ORDER BY seq DESC LIMIT 1000) t WHERE t.created_at > :limit_time

-- name: missing_indexes
SELECT 19 - COUNT(DISTINCT index_name) FROM information_schema.statistics
 WHERE table_schema = DATABASE() AND seq_in_index = 1 AND index_name IN
    ('{p}queue_claim', '{p}queue_place', '{p}queue_expiry', '{p}queue_key', '{p}batch_lease', '{p}dedup_expiry',
     '{p}inbox_id', '{p}inbox_seq', '{p}inbox_state', '{p}command_key_expiry', '{p}job_name', '{p}job_tick',
     '{p}job_run_instant', '{p}job_run_id', '{p}job_run_job', '{p}job_run_seq', '{p}job_run_open', '{p}job_run_ended')
    OR (table_schema = DATABASE() AND seq_in_index = 1 AND table_name = '{p}ready' AND index_name = 'PRIMARY')

-- name: other_engines
SELECT COUNT(*) FROM information_schema.tables
 WHERE table_schema = DATABASE() AND table_comment = 'Posthorn' AND LEFT(table_name, :length) = :prefix
   AND engine <> 'InnoDB'

-- name: missing_procedure
SELECT 1 - COUNT(*) FROM information_schema.routines
 WHERE routine_schema = DATABASE() AND routine_name = '{p}enqueue'

-- name: overdue_batch_count
SELECT COUNT(*) FROM {p}batch WHERE lease_until <= :now

-- name: longest_transaction
-- In seconds. Needs the PROCESS right; a large number is bad, because old versions of rows pile up meanwhile.
SELECT CAST(COALESCE(MAX(TIMESTAMPDIFF(SECOND, trx_started, NOW())), 0) AS SIGNED) FROM information_schema.innodb_trx

-- name: fences_ahead
-- Leases whose fence is larger than the last one that was drawn.
SELECT COUNT(*) FROM {p}lease WHERE fence >= (SELECT next_not_cached_value FROM {p}lease_fence)

-- name: leases_too_long
-- Leases that end later than they can, unless the clock was set back.
SELECT COUNT(*) FROM {p}lease WHERE owner <> '' AND expires_at > :now + length + 1000000

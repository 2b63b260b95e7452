-- What a diagnosis asks.

-- name: missing_indexes
SELECT 14 - pg_catalog.count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
 WHERE i.indrelid IN ('{p}message'::regclass::oid, '{p}batch'::regclass::oid, '{p}inbox'::regclass::oid, '{p}command_key'::regclass::oid) AND i.indisvalid AND c.relname IN
       ('message_pkey', 'message_id', 'message_due', 'message_later', 'message_key', 'message_expiry',
        'message_place', 'message_parked', 'batch_lease', 'inbox_id', 'inbox_seq', 'inbox_state',
        'inbox_done', 'command_key_expiry')

-- name: claimed_by_nobody
SELECT pg_catalog.count(*) FROM {p}message m WHERE m.state IN (2, 3) AND NOT EXISTS (SELECT FROM {p}batch b WHERE b.fence = m.fence)

-- name: in_two_places
SELECT pg_catalog.count(*) FROM {p}message m
 WHERE (m.place NOT IN (0, 5, 6) AND m.state <> 0) OR (m.place = 6 AND m.state NOT IN (4, 5)) OR (m.place = 5 AND m.state NOT IN (2, 3))
    OR (m.place = 0 AND m.state IN (4, 5))

-- name: miscounted_batches
SELECT pg_catalog.count(*) FROM {p}batch b
 WHERE b.open <> (SELECT pg_catalog.count(*) FROM {p}message m WHERE m.fence = b.fence AND m.state IN (2, 3)
                     AND (m.seq BETWEEN b.plain_from AND b.plain_to OR m.seq = ANY (b.others)))

-- name: waiting_without_reason
-- A message behind its key's head waits for it, and that head is open or dead and blocking.
SELECT pg_catalog.count(*) FROM {p}message m
 WHERE m.place = 4 AND NOT EXISTS (SELECT FROM {p}join_member j WHERE j.seq = m.seq AND j.role IN (1, 2) AND j.state = 0)
   AND NOT EXISTS (SELECT FROM {p}key_head h JOIN {p}message o ON o.seq = h.seq
                    WHERE h.ordering_key = m.ordering_key AND h.seq <> m.seq AND (o.place NOT IN (0, 6) OR o.state = 4))

-- name: left_behind
-- Plain messages that wait behind the mark, where no claim looks.
SELECT pg_catalog.count(*) FROM {p}message WHERE seq <= (SELECT low FROM {p}mark) AND state = 0 AND place = 0

-- name: inbox_astray
-- What came from outside and waits has a message, whose end is followed.
SELECT pg_catalog.count(*) FROM {p}inbox i
 WHERE i.state = 0 AND i.seq <> 0
   AND (NOT EXISTS (SELECT FROM {p}message m WHERE m.seq = i.seq)
     OR NOT EXISTS (SELECT FROM {p}join_member j WHERE j.number = 0 AND j.role = 3 AND j.seq = i.seq))

-- name: from_the_future
SELECT pg_catalog.count(*) FROM (SELECT created_at FROM {p}message ORDER BY seq DESC LIMIT 1000) newest
 WHERE created_at > {p}clock(:now::bigint) + 60000000

-- name: overdue_batch_count
SELECT pg_catalog.count(*) FROM {p}batch WHERE lease_until <= {p}clock(:now::bigint)

-- name: oldest_transaction
-- Seconds since the oldest transaction of this database that may hold back the clean-up of dead rows began.
SELECT coalesce(extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.min(xact_start))::bigint, 0) FROM pg_catalog.pg_stat_activity
 WHERE datname = pg_catalog.current_database() AND backend_xmin IS NOT NULL AND pid <> pg_catalog.pg_backend_pid()

-- name: fences_ahead
-- Leases whose fence is larger than the last one that was drawn.
SELECT pg_catalog.count(*) FROM {p}lease WHERE fence > (SELECT last_value FROM {p}lease_fence)

-- name: leases_too_long
-- Leases that end later than they can, unless the clock was set back.
SELECT pg_catalog.count(*) FROM {p}lease WHERE owner <> '' AND expires_at > {p}clock(:now::bigint) + length + 1000000

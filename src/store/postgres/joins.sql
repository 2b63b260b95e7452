-- Joins. The order of locks is: batch, key heads, messages, joins by number.

-- name: open_join
INSERT INTO {p}joins (created_at, updated_at, id, expected, needed, any_failure_fails, deadline_at, grouping_key, correlation_id,
                      metadata, on_complete_topic, on_complete_payload, on_fail_topic, on_fail_payload, trace)
SELECT c.now, c.now, :id::uuid, :expected::bigint, :needed::bigint, :any_failure_fails::boolean,
       coalesce(c.now + :deadline::bigint, 0), :grouping_key::text, :correlation_id::text, :metadata::bytea,
       :on_complete_topic::text, :on_complete_payload::bytea, :on_fail_topic::text, :on_fail_payload::bytea,
       :trace::text
  FROM (SELECT {p}clock(:now::bigint) AS now) c
RETURNING number

-- fragment: join_columns
j.number, j.id, j.state, j.ended_by, j.expected, j.needed, j.any_failure_fails, j.attached, j.completed, j.failed,
       j.reopened, j.created_at, j.updated_at, j.deadline_at, j.ended_at, j.grouping_key, j.correlation_id

-- name: lock_joins
SELECT {{join_columns}} FROM {p}joins j WHERE j.number = ANY (:numbers::bigint[]) ORDER BY j.number FOR UPDATE

-- name: lock_join
SELECT {{join_columns}} FROM {p}joins j WHERE j.id = :id::uuid FOR UPDATE

-- name: find_join
SELECT {{join_columns}}, j.metadata, j.on_complete_topic, j.on_complete_payload, j.on_fail_topic, j.on_fail_payload
  FROM {p}joins j WHERE j.id = :id::uuid

-- fragment: page_of_joins
(:state::bigint IS NULL OR j.state = :state::bigint) AND (:grouping_key::text IS NULL OR j.grouping_key = :grouping_key::text)
   AND j.number > :after::bigint ORDER BY j.number LIMIT :limit::bigint

-- name: list_joins
SELECT {{join_columns}} FROM {p}joins j WHERE {{page_of_joins}}

-- name: list_joins_of_state
SELECT {{join_columns}} FROM {p}joins j WHERE j.state = :state::bigint AND {{page_of_joins}}

-- name: list_joins_of_group
SELECT {{join_columns}} FROM {p}joins j WHERE j.grouping_key = :grouping_key::text AND j.grouping_key <> '' AND {{page_of_joins}}

-- name: list_joins_of_member
SELECT {{join_columns}} FROM {p}joins j
 WHERE j.number = ANY (ARRAY (SELECT m.number FROM {p}join_member m WHERE m.seq = :seq::bigint)) AND {{page_of_joins}}

-- name: continuations
SELECT j.number, j.on_complete_topic, j.on_complete_payload, j.on_fail_topic, j.on_fail_payload, j.correlation_id, j.trace
  FROM {p}joins j WHERE j.number = ANY (:numbers::bigint[]) ORDER BY j.number

-- name: save_joins
UPDATE {p}joins j
   SET state = n.state, ended_by = n.ended_by, expected = n.expected, attached = n.attached, completed = n.completed,
       failed = n.failed, reopened = n.reopened, deadline_at = n.deadline_at, updated_at = c.now,
       ended_at = CASE WHEN n.state = 0 THEN 0 ELSE c.now END
  FROM (SELECT {p}clock(:now::bigint) AS now OFFSET 0) c,
       unnest(:numbers::bigint[], :states::bigint[], :ended_bys::bigint[], :expecteds::bigint[], :attacheds::bigint[],
              :completeds::bigint[], :faileds::bigint[], :reopeneds::bigint[], :deadlines::bigint[])
       AS n (number, state, ended_by, expected, attached, completed, failed, reopened, deadline_at)
 WHERE j.number = n.number

-- name: rows_of
SELECT m.number, m.seq, m.role, m.state, m.id FROM {p}join_member m WHERE m.seq = ANY (:seqs::bigint[])

-- name: open_rows_of
-- Of nobody's interest to most batches: then this finds nothing, and nothing else has to be done.
SELECT m.seq FROM {p}join_member m WHERE m.seq = ANY (:seqs::bigint[]) AND m.state = 0 LIMIT 1

-- name: add_members
INSERT INTO {p}join_member (number, seq, attached_at, settled_at, role, state, id)
SELECT :number::bigint, n.seq, c.now, CASE WHEN n.state <> 0 THEN c.now ELSE 0 END, n.role, n.state, n.id
  FROM (SELECT {p}clock(:now::bigint) AS now OFFSET 0) c,
       unnest(:seqs::bigint[], :roles::bigint[], :states::bigint[], :ids::uuid[]) AS n (seq, role, state, id)

-- name: mark_members
UPDATE {p}join_member m
   SET state = :state::bigint, settled_at = CASE WHEN :state::bigint <> 0 THEN c.now ELSE 0 END
  FROM (SELECT {p}clock(:now::bigint) AS now OFFSET 0) c,
       unnest(:numbers::bigint[], :seqs::bigint[]) AS n (number, seq)
 WHERE m.number = n.number AND m.role = 0 AND m.seq = n.seq

-- name: members_of_join
SELECT id, seq, state, attached_at, settled_at FROM {p}join_member
 WHERE number = :number::bigint AND role = 0 AND seq > :after::bigint ORDER BY seq LIMIT :limit::bigint

-- name: follow
-- What nobody has claimed is plain no more: a claim that saw it otherwise looks again, for the row has changed.
UPDATE {p}message SET place = CASE WHEN place = 0 THEN 1 ELSE place END WHERE seq = ANY (:seqs::bigint[]) AND state = 0

-- name: follow_claimed
-- Needs the lock of its batch.
UPDATE {p}message SET place = 5 WHERE seq = :seq::bigint AND fence = :fence::bigint AND state IN (2, 3)

-- name: list_among_others
-- The row is written even if nothing in it changes: a settlement with an older view of the database must notice.
UPDATE {p}batch SET others = CASE WHEN :seq::bigint = ANY (others) THEN others ELSE pg_catalog.array_append(others, :seq::bigint) END
 WHERE fence = :fence::bigint

-- name: hold_dead
SELECT FROM {p}message WHERE seq = :seq::bigint AND place = 6 FOR UPDATE

-- name: keep_back
UPDATE {p}message SET place = 4, due_at = created_at WHERE seq = :seq::bigint

-- name: release_waiters
WITH freed AS (
    UPDATE {p}message SET place = 1
     WHERE seq = ANY (ARRAY (SELECT seq FROM {p}join_member WHERE number = ANY (:numbers::bigint[]) AND role = 2 AND state = 0))
       AND state = 0 AND place = 4 AND ordering_key = ''
    RETURNING seq)
SELECT {p}ring() FROM (SELECT FROM freed LIMIT 1) any_freed

-- name: remove_deadlines
DELETE FROM {p}message
 WHERE seq = ANY (ARRAY (SELECT m.seq FROM {p}message m
                          WHERE m.seq = ANY (ARRAY (SELECT seq FROM {p}join_member WHERE number = ANY (:numbers::bigint[])
                                                       AND role = 1 AND state = 0))
                            AND m.state = 0 AND m.place = 4
                            FOR UPDATE SKIP LOCKED))

-- name: leave_members
UPDATE {p}join_member SET state = 3, settled_at = (SELECT {p}clock(:now::bigint))
 WHERE number = ANY (:numbers::bigint[]) AND state = 0

-- name: remove_members
-- Of the joins that ended longest ago; locked ones are somebody else's to remove.
WITH old AS MATERIALIZED (
    SELECT number FROM {p}joins WHERE ended_at <> 0 AND ended_at <= (SELECT {p}clock(:now::bigint)) - :age::bigint
     ORDER BY ended_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED)
DELETE FROM {p}join_member
 WHERE ctid = ANY (ARRAY (SELECT m.ctid FROM old o JOIN {p}join_member m ON m.number = o.number LIMIT :limit::bigint))

-- name: remove_joins
DELETE FROM {p}joins
 WHERE number = ANY (ARRAY (
    SELECT j.number FROM {p}joins j
     WHERE j.ended_at <> 0 AND j.ended_at <= (SELECT {p}clock(:now::bigint)) - :age::bigint
       AND NOT EXISTS (SELECT FROM {p}join_member m WHERE m.number = j.number)
     ORDER BY j.ended_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED))

-- name: remember_report
INSERT INTO {p}join_report (seq, store, join_id) VALUES (:seq::bigint, :store::text, :join_id::uuid) ON CONFLICT DO NOTHING

-- name: report_addresses
SELECT seq, store, join_id FROM {p}join_report WHERE seq = ANY (:seqs::bigint[])

-- name: forget_reports
DELETE FROM {p}join_report WHERE seq = ANY (:seqs::bigint[])

-- name: follow_remote_no_more
DELETE FROM {p}join_member WHERE number = 0 AND role = 6 AND seq = ANY (:seqs::bigint[])

-- name: find_remote_member
SELECT id, store, state, reported, version FROM {p}join_remote WHERE number = :number::bigint AND id = :id::uuid

-- name: put_remote_member
INSERT INTO {p}join_remote (number, id, store, state, reported, version)
VALUES (:number::bigint, :id::uuid, :store::text, :state::bigint, :reported::bigint, :version::bigint)
    ON CONFLICT (number, id) DO UPDATE SET state = excluded.state, reported = excluded.reported, version = excluded.version

-- name: remote_members_of_join
SELECT id, store, state, reported, version FROM {p}join_remote
 WHERE number = :number::bigint AND id > :after::uuid ORDER BY id LIMIT :limit::bigint

-- Joins. The order of locks is: batch, message, joins by number.

-- name: open_join
INSERT INTO {p}joins (id, expected, needed, any_failure_fails, created_at, updated_at, deadline_at, grouping_key,
                      correlation_id, metadata, on_complete_topic, on_complete_payload, on_fail_topic, on_fail_payload, trace)
VALUES (:id, :expected, :needed, :any_failure_fails, COALESCE(:now, {{clock}}), COALESCE(:now, {{clock}}),
        COALESCE(:now, {{clock}}) + :deadline, :grouping_key,
        :correlation_id, :metadata, :on_complete_topic, :on_complete_payload, :on_fail_topic, :on_fail_payload, :trace)
RETURNING number

-- fragment: join_columns
j.number, j.id, j.state, j.ended_by, j.expected, j.needed, j.any_failure_fails, j.attached, j.completed, j.failed,
       j.reopened, j.created_at, j.updated_at, j.deadline_at, j.ended_at, j.grouping_key, j.correlation_id

-- name: lock_joins
SELECT {{join_columns}} FROM {{list}} STRAIGHT_JOIN {p}joins j FORCE INDEX (PRIMARY) ON j.number = l.seq FOR UPDATE

-- name: lock_join
SELECT {{join_columns}} FROM {p}joins j WHERE j.id = :id FOR UPDATE

-- name: find_join
SELECT {{join_columns}}, j.metadata, j.on_complete_topic, j.on_complete_payload, j.on_fail_topic, j.on_fail_payload
  FROM {p}joins j WHERE j.id = :id

-- fragment: page_of_joins
(:state IS NULL OR j.state = :state) AND (:grouping_key IS NULL OR j.grouping_key = :grouping_key)
   AND j.number > :after ORDER BY j.number LIMIT :limit

-- name: list_joins
SELECT {{join_columns}} FROM {p}joins j WHERE {{page_of_joins}}

-- name: list_joins_of_state
SELECT {{join_columns}} FROM {p}joins j FORCE INDEX ({p}joins_state) WHERE j.state = :state AND {{page_of_joins}}

-- name: list_joins_of_group
SELECT {{join_columns}} FROM {p}joins j FORCE INDEX ({p}joins_group) WHERE j.grouping_key = :grouping_key AND {{page_of_joins}}

-- name: list_joins_of_member
SELECT {{join_columns}} FROM {p}join_member m FORCE INDEX ({p}join_member_seq)
       STRAIGHT_JOIN {p}joins j FORCE INDEX (PRIMARY) ON j.number = m.number
 WHERE m.seq = :seq AND {{page_of_joins}}

-- name: continuations
SELECT j.number, j.on_complete_topic, j.on_complete_payload, j.on_fail_topic, j.on_fail_payload, j.correlation_id, j.trace
  FROM {{list}} STRAIGHT_JOIN {p}joins j FORCE INDEX (PRIMARY) ON j.number = l.seq

-- name: save_joins
-- Each item is a list of what can change, in this order.
UPDATE JSON_TABLE(:list, '$[*]' COLUMNS (number BIGINT PATH '$[0]', state BIGINT PATH '$[1]', ended_by BIGINT PATH '$[2]',
                                         expected BIGINT PATH '$[3]', attached BIGINT PATH '$[4]', completed BIGINT PATH '$[5]',
                                         failed BIGINT PATH '$[6]', reopened BIGINT PATH '$[7]', deadline_at BIGINT PATH '$[8]')) n
       STRAIGHT_JOIN {p}joins j FORCE INDEX (PRIMARY) ON j.number = n.number
   SET j.state = n.state, j.ended_by = n.ended_by, j.expected = n.expected, j.attached = n.attached,
       j.completed = n.completed, j.failed = n.failed, j.reopened = n.reopened, j.deadline_at = n.deadline_at,
       j.updated_at = COALESCE(:now, {{clock}}), j.ended_at = IF(n.state = 0, NULL, COALESCE(:now, {{clock}}))

-- name: rows_of
SELECT m.number, m.seq, m.role, m.state, m.id
  FROM {{list}} STRAIGHT_JOIN {p}join_member m FORCE INDEX ({p}join_member_seq) ON m.seq = l.seq

-- name: newest_rows_of
-- In a transaction whose view of the database may be old: a read that locks sees what is.
SELECT m.number, m.seq, m.role, m.state, m.id
  FROM {{list}} STRAIGHT_JOIN {p}join_member m FORCE INDEX ({p}join_member_seq) ON m.seq = l.seq LOCK IN SHARE MODE

-- name: add_member
INSERT INTO {p}join_member (number, role, seq, state, id, attached_at, settled_at)
VALUES (:number, :role, :seq, :state, :id, COALESCE(:now, {{clock}}), IF(:state = 0, NULL, COALESCE(:now, {{clock}})))

-- name: mark_members
UPDATE JSON_TABLE(:list, '$[*]' COLUMNS (number BIGINT PATH '$[0]', seq BIGINT PATH '$[1]')) n
       STRAIGHT_JOIN {p}join_member m FORCE INDEX (PRIMARY) ON m.number = n.number AND m.role = 0 AND m.seq = n.seq
   SET m.state = :state, m.settled_at = IF(:state = 0, NULL, COALESCE(:now, {{clock}}))

-- name: members_of_join
SELECT id, seq, state, attached_at, settled_at FROM {p}join_member
 WHERE number = :number AND role = 0 AND seq > :after ORDER BY seq LIMIT :limit

-- name: hold_ready
SELECT seq FROM {p}ready WHERE seq = :seq FOR UPDATE

-- name: follow_batch
UPDATE {p}batch SET followed = 1 WHERE fence = :fence

-- name: keep_back
UPDATE {p}queue SET place = 2, due_at = (SELECT m.created_at FROM {p}message m WHERE m.seq = :seq) WHERE seq = :seq

-- name: release_waiters
UPDATE {{list}} STRAIGHT_JOIN {p}join_member m FORCE INDEX (PRIMARY) ON m.number = l.seq AND m.role = 2 AND m.state = 0
       STRAIGHT_JOIN {p}queue q FORCE INDEX (PRIMARY) ON q.seq = m.seq AND q.place = 2 AND q.ordering_key IS NULL
   SET q.place = 1

-- name: open_deadlines
SELECT m.seq FROM {{list}} STRAIGHT_JOIN {p}join_member m FORCE INDEX (PRIMARY) ON m.number = l.seq AND m.role = 1 AND m.state = 0

-- name: hold_deadlines
-- One that somebody else has locked is being ended there, and waits for the lock of its join.
SELECT q.seq FROM {{list}} STRAIGHT_JOIN {p}queue q FORCE INDEX (PRIMARY) ON q.seq = l.seq AND q.place = 2 FOR UPDATE SKIP LOCKED

-- name: leave_members
UPDATE {{list}} STRAIGHT_JOIN {p}join_member m FORCE INDEX (PRIMARY) ON m.number = l.seq
   SET m.settled_at = COALESCE(:now, {{clock}}), m.state = 3 WHERE m.state = 0

-- name: removable_joins
SELECT number FROM {p}joins FORCE INDEX ({p}joins_ended) WHERE ended_at <= COALESCE(:now, {{clock}}) - :age ORDER BY ended_at LIMIT :limit
   FOR UPDATE SKIP LOCKED

-- name: delete_members
DELETE FROM {p}join_member WHERE number = :number LIMIT :limit

-- name: delete_join
DELETE FROM {p}joins WHERE number = :number

-- name: remember_report
INSERT IGNORE INTO {p}join_report (seq, store, join_id) VALUES (:seq, :store, :join_id)

-- name: report_addresses
SELECT r.seq, r.store, r.join_id FROM {{list}} STRAIGHT_JOIN {p}join_report r FORCE INDEX (PRIMARY) ON r.seq = l.seq

-- name: forget_reports
DELETE r FROM {{list}} STRAIGHT_JOIN {p}join_report r FORCE INDEX (PRIMARY) ON r.seq = l.seq

-- name: follow_remote_no_more
DELETE m FROM {{list}} STRAIGHT_JOIN {p}join_member m FORCE INDEX (PRIMARY) ON m.number = 0 AND m.role = 6 AND m.seq = l.seq

-- name: find_remote_member
SELECT id, store, state, reported, version FROM {p}join_remote WHERE number = :number AND id = :id LOCK IN SHARE MODE

-- name: put_remote_member
INSERT INTO {p}join_remote (number, id, store, state, reported, version)
VALUES (:number, :id, :store, :state, :reported, :version)
    ON DUPLICATE KEY UPDATE state = :state, reported = :reported, version = :version

-- name: remote_members_of_join
SELECT id, store, state, reported, version FROM {p}join_remote WHERE number = :number AND id > :after ORDER BY id LIMIT :limit

-- name: delete_remote_members
DELETE FROM {p}join_remote WHERE number = :number

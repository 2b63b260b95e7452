-- Joins. A list of numbers is one JSON parameter; CROSS JOIN makes the list the outer table.

-- name: open_join
INSERT INTO {p}joins (id, expected, needed, any_failure_fails, created_at, updated_at, deadline_at, grouping_key,
                      correlation_id, metadata, on_complete_topic, on_complete_payload, on_fail_topic, on_fail_payload, trace)
VALUES (:id, :expected, :needed, :any_failure_fails, :now, :now, :deadline_at, :grouping_key,
        :correlation_id, :metadata, :on_complete_topic, :on_complete_payload, :on_fail_topic, :on_fail_payload, :trace)
RETURNING number

-- fragment: join_columns
j.number, j.id, j.state, j.ended_by, j.expected, j.needed, j.any_failure_fails, j.attached, j.completed, j.failed,
       j.reopened, j.created_at, j.updated_at, j.deadline_at, j.ended_at, j.grouping_key, j.correlation_id

-- name: joins_of_numbers
SELECT {{join_columns}} FROM json_each(:list) l CROSS JOIN {p}joins j ON j.number = l.value

-- name: join_of_id
SELECT {{join_columns}} FROM {p}joins j WHERE j.id = :id

-- name: find_join
SELECT {{join_columns}}, j.metadata, j.on_complete_topic, j.on_complete_payload, j.on_fail_topic, j.on_fail_payload
  FROM {p}joins j WHERE j.id = :id

-- fragment: page_of_joins
(:state IS NULL OR j.state = :state) AND (:grouping_key IS NULL OR j.grouping_key = :grouping_key)
   AND j.number > :after ORDER BY j.number LIMIT :limit

-- name: list_joins
SELECT {{join_columns}} FROM {p}joins j WHERE {{page_of_joins}}

-- name: list_joins_of_state
SELECT {{join_columns}} FROM {p}joins j INDEXED BY {p}joins_state WHERE j.state = :state AND {{page_of_joins}}

-- name: list_joins_of_group
SELECT {{join_columns}} FROM {p}joins j INDEXED BY {p}joins_group WHERE j.grouping_key = :grouping_key AND {{page_of_joins}}

-- name: list_joins_of_member
SELECT {{join_columns}} FROM {p}join_member m CROSS JOIN {p}joins j ON j.number = m.number
 WHERE m.seq = :seq AND {{page_of_joins}}

-- name: continuations
SELECT j.number, j.on_complete_topic, j.on_complete_payload, j.on_fail_topic, j.on_fail_payload, j.correlation_id, j.trace
  FROM json_each(:list) l CROSS JOIN {p}joins j ON j.number = l.value

-- name: save_joins
-- Each item is a list of what can change, in this order.
UPDATE {p}joins
   SET state = n.state, ended_by = n.ended_by, expected = n.expected, attached = n.attached, completed = n.completed,
       failed = n.failed, reopened = n.reopened, deadline_at = n.deadline_at, updated_at = :now,
       ended_at = CASE WHEN n.state = 0 THEN NULL ELSE :now END
  FROM (SELECT json_extract(value, '$[0]') AS number, json_extract(value, '$[1]') AS state, json_extract(value, '$[2]') AS ended_by,
               json_extract(value, '$[3]') AS expected, json_extract(value, '$[4]') AS attached,
               json_extract(value, '$[5]') AS completed, json_extract(value, '$[6]') AS failed,
               json_extract(value, '$[7]') AS reopened, json_extract(value, '$[8]') AS deadline_at
          FROM json_each(:list)) n
 WHERE {p}joins.number = n.number

-- name: rows_of
-- The rows of joins for these messages. The list is not even looked at where no message between the first and the last
-- is in a join: what everybody pays who uses no joins.
SELECT m.number, m.seq, m.role, m.state, m.id
  FROM json_each(CASE WHEN EXISTS (SELECT 1 FROM {p}join_member WHERE seq BETWEEN :first AND :last) THEN :list ELSE '[]' END) l
       CROSS JOIN {p}join_member m ON m.seq = l.value

-- name: add_member
INSERT INTO {p}join_member (number, role, seq, state, id, attached_at, settled_at)
VALUES (:number, :role, :seq, :state, :id, :now, CASE WHEN :state <> 0 THEN :now END)

-- name: mark_members
UPDATE {p}join_member
   SET state = :state, settled_at = CASE WHEN :state <> 0 THEN :now END
  FROM (SELECT json_extract(value, '$[0]') AS number, json_extract(value, '$[1]') AS seq FROM json_each(:list)) n
 WHERE {p}join_member.number = n.number AND {p}join_member.role = 0 AND {p}join_member.seq = n.seq

-- name: members_of_join
SELECT id, seq, state, attached_at, settled_at FROM {p}join_member
 WHERE number = :number AND role = 0 AND seq > :after ORDER BY seq LIMIT :limit

-- name: state_of_message
-- Whether it is in the queue, and if so where; whether it has ended, and if so how; whether the log has been claimed beyond it.
SELECT (SELECT state FROM {p}queue WHERE seq = :seq), (SELECT state FROM {p}finished WHERE seq = :seq),
       :seq <= (SELECT claimed_to FROM {p}log WHERE one = 1)

-- name: keep_back
UPDATE {p}queue SET state = 1, due_at = (SELECT created_at FROM {p}message m WHERE m.seq = :seq) WHERE seq = :seq

-- name: release_waiters
UPDATE {p}queue SET state = 0
 WHERE state = 1 AND ordering_key IS NULL
   AND seq IN (SELECT m.seq FROM json_each(:list) l CROSS JOIN {p}join_member m ON m.number = l.value
                WHERE m.role = 2 AND m.state = 0)

-- name: open_deadlines
SELECT m.seq FROM json_each(:list) l CROSS JOIN {p}join_member m ON m.number = l.value WHERE m.role = 1 AND m.state = 0

-- name: delete_kept_back
DELETE FROM {p}queue WHERE seq = :seq AND state = 1

-- name: leave_members
UPDATE {p}join_member SET state = 3, settled_at = :now
 WHERE number IN (SELECT value FROM json_each(:list)) AND state = 0

-- name: removable_join
SELECT number FROM {p}joins INDEXED BY {p}joins_ended WHERE ended_at IS NOT NULL AND ended_at <= :until ORDER BY ended_at LIMIT 1

-- name: delete_members
DELETE FROM {p}join_member WHERE (number, role, seq) IN
    (SELECT number, role, seq FROM {p}join_member WHERE number = :number LIMIT :limit)

-- name: delete_join
DELETE FROM {p}joins WHERE number = :number

-- name: remember_report
INSERT INTO {p}join_report (seq, store, join_id) VALUES (:seq, :store, :join_id) ON CONFLICT DO NOTHING

-- name: report_addresses
SELECT seq, store, join_id FROM {p}join_report WHERE seq IN (SELECT value FROM json_each(:list))

-- name: forget_reports
DELETE FROM {p}join_report WHERE seq IN (SELECT value FROM json_each(:list))

-- name: follow_remote_no_more
DELETE FROM {p}join_member WHERE number = 0 AND role = 6 AND seq IN (SELECT value FROM json_each(:list))

-- name: find_remote_member
SELECT id, store, state, reported, version FROM {p}join_remote WHERE number = :number AND id = :id

-- name: put_remote_member
INSERT INTO {p}join_remote (number, id, store, state, reported, version)
VALUES (:number, :id, :store, :state, :reported, :version)
    ON CONFLICT (number, id) DO UPDATE SET state = excluded.state, reported = excluded.reported, version = excluded.version

-- name: remote_members_of_join
SELECT id, store, state, reported, version FROM {p}join_remote WHERE number = :number AND id > :after ORDER BY id LIMIT :limit

-- Jobs and executions. A job is locked before its ticks and runs are changed.

-- fragment: job_columns
j.number, j.kind, j.name, j.paused, j.next_at, j.skip_before, j.tick_seq, j.tick, j.created_at, j.updated_at, j.topic,
       j.definition, j.payload, COALESCE(:now, {{clock}})

-- name: job_clock
SELECT COALESCE(:now, {{clock}})

-- name: find_job
SELECT {{job_columns}} FROM {p}job j WHERE j.kind = :kind AND j.name = :name

-- name: lock_job
SELECT {{job_columns}} FROM {p}job j WHERE j.kind = :kind AND j.name = :name FOR UPDATE

-- name: lock_job_of_number
SELECT {{job_columns}} FROM {p}job j WHERE j.number = :number FOR UPDATE

-- name: insert_job
INSERT IGNORE INTO {p}job (kind, name, next_at, skip_before, created_at, updated_at, topic, definition, payload)
VALUES (:kind, :name, :next_at, :skip_before, :created_at, :created_at, :topic, :definition, :payload)
RETURNING number

-- name: save_job
UPDATE {p}job SET paused = :paused, next_at = :next_at, skip_before = :skip_before, tick_seq = :tick_seq, tick = :tick,
                  updated_at = :updated_at, topic = :topic, definition = :definition, payload = :payload
 WHERE number = :number

-- name: delete_job
DELETE FROM {p}job WHERE number = :number

-- name: list_jobs
SELECT {{job_columns}} FROM {p}job j WHERE j.kind = :kind AND j.number > :after ORDER BY j.number LIMIT :limit

-- name: jobs_of_ticks
SELECT {{job_columns}} FROM {{list}} STRAIGHT_JOIN {p}job j FORCE INDEX ({p}job_tick) ON j.tick_seq = l.seq FOR UPDATE

-- name: forget_followed
DELETE m FROM {{list}} STRAIGHT_JOIN {p}join_member m FORCE INDEX (PRIMARY) ON m.number = 0 AND m.role = :role AND m.seq = l.seq

-- fragment: run_columns
r.number, r.id, r.job, r.nominal_at, r.kind, r.state, r.covers_from, r.covers, r.seq, r.message, r.created_at, r.started_at,
       r.ended_at, r.attempts, r.reason

-- name: add_run
INSERT IGNORE INTO {p}job_run (id, job, nominal_at, kind, state, covers_from, covers, created_at, ended_at, reason)
VALUES (:id, :job, :nominal_at, :kind, :state, :covers_from, :covers, :created_at, :ended_at, :reason)
RETURNING number

-- name: save_run
UPDATE {p}job_run SET state = :state, seq = :seq, message = :message, started_at = :started_at, ended_at = :ended_at,
                      attempts = :attempts, reason = :reason
 WHERE number = :number

-- name: open_runs
SELECT {{run_columns}} FROM {p}job_run r FORCE INDEX ({p}job_run_open)
 WHERE r.job = :job AND r.state <= 1 AND r.kind <> 3 ORDER BY r.state DESC, r.nominal_at LIMIT :limit

-- name: runs_of_messages
SELECT {{run_columns}} FROM {{list}} STRAIGHT_JOIN {p}job_run r FORCE INDEX ({p}job_run_seq) ON r.seq = l.seq FOR UPDATE

-- name: find_run
SELECT {{run_columns}} FROM {p}job_run r WHERE r.id = :id

-- fragment: page_of_runs
(:state IS NULL OR r.state = :state) AND r.number < :before ORDER BY r.number DESC LIMIT :limit

-- name: list_runs
SELECT {{run_columns}} FROM {p}job_run r WHERE {{page_of_runs}}

-- name: list_runs_of_job
SELECT {{run_columns}} FROM {p}job_run r FORCE INDEX ({p}job_run_job) WHERE r.job = :job AND {{page_of_runs}}

-- name: ended_runs
SELECT r.number, COALESCE(r.seq, 0) FROM {p}job_run r FORCE INDEX ({p}job_run_ended)
 WHERE r.ended_at <= COALESCE(:now, {{clock}}) - :age ORDER BY r.ended_at LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: delete_runs
DELETE r FROM {{list}} STRAIGHT_JOIN {p}job_run r FORCE INDEX (PRIMARY) ON r.number = l.seq

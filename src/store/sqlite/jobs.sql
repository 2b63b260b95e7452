-- Jobs and executions.

-- fragment: job_columns
number, kind, name, paused, next_at, skip_before, tick_seq, tick, created_at, updated_at, topic, definition, payload

-- name: find_job
SELECT {{job_columns}} FROM {p}job WHERE kind = :kind AND name = :name

-- name: job_of_number
SELECT {{job_columns}} FROM {p}job WHERE number = :number

-- name: insert_job
INSERT INTO {p}job (kind, name, paused, next_at, skip_before, created_at, updated_at, topic, definition, payload)
VALUES (:kind, :name, 0, :next_at, :skip_before, :now, :now, :topic, :definition, :payload)
    ON CONFLICT DO NOTHING
RETURNING number

-- name: save_job
UPDATE {p}job SET paused = :paused, next_at = :next_at, skip_before = :skip_before, tick_seq = :tick_seq, tick = :tick,
                  updated_at = :updated_at, topic = :topic, definition = :definition, payload = :payload
 WHERE number = :number

-- name: delete_job
DELETE FROM {p}job WHERE number = :number

-- name: list_jobs
SELECT {{job_columns}} FROM {p}job WHERE kind = :kind AND number > :after ORDER BY number LIMIT :limit

-- name: jobs_of_ticks
SELECT {{job_columns}} FROM {p}job
 WHERE tick_seq IN (SELECT value FROM json_each(:list)) AND tick_seq <> 0 ORDER BY number

-- name: forget_followed
DELETE FROM {p}join_member WHERE number = 0 AND role = :role AND seq IN (SELECT value FROM json_each(:list))

-- fragment: run_columns
number, id, job, nominal_at, kind, state, covers_from, covers, seq, message, created_at, started_at, ended_at, attempts, reason

-- name: add_run
INSERT INTO {p}job_run (id, job, nominal_at, kind, state, covers_from, covers, created_at, ended_at, reason)
VALUES (:id, :job, :nominal_at, :kind, :state, :covers_from, :covers, :created_at, :ended_at, :reason)
    ON CONFLICT DO NOTHING
RETURNING number

-- name: save_run
UPDATE {p}job_run SET state = :state, seq = :seq, message = :message, started_at = :started_at, ended_at = :ended_at,
                      attempts = :attempts, reason = :reason
 WHERE number = :number

-- name: open_runs
SELECT {{run_columns}} FROM {p}job_run WHERE job = :job AND state <= 1 AND kind <> 3 ORDER BY state DESC, nominal_at LIMIT :limit

-- name: runs_of_messages
SELECT {{run_columns}} FROM {p}job_run
 WHERE seq IN (SELECT value FROM json_each(:list)) AND seq <> 0 ORDER BY number

-- name: find_run
SELECT {{run_columns}} FROM {p}job_run WHERE id = :id

-- fragment: page_of_runs
(:state IS NULL OR state = :state) AND number < :before ORDER BY number DESC LIMIT :limit

-- name: list_runs
SELECT {{run_columns}} FROM {p}job_run WHERE {{page_of_runs}}

-- name: list_runs_of_job
SELECT {{run_columns}} FROM {p}job_run WHERE job = :job AND {{page_of_runs}}

-- name: ended_runs
SELECT number, seq FROM {p}job_run WHERE ended_at <= :until ORDER BY ended_at LIMIT :limit

-- name: delete_runs
DELETE FROM {p}job_run WHERE number IN (SELECT value FROM json_each(:list))

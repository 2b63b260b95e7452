-- Jobs and executions. A job is locked before its ticks and runs are changed; each statement after that sees what whoever had
-- the lock before has done.

-- name: job_clock
SELECT {p}clock(:now::bigint)

-- fragment: job_columns
j.number, j.kind, j.name, j.paused, j.next_at, j.skip_before, j.tick_seq, j.tick, j.created_at, j.updated_at, j.topic,
       j.definition, j.payload, {p}clock(:now::bigint)

-- name: find_job
SELECT {{job_columns}} FROM {p}job j WHERE j.kind = :kind::bigint AND j.name = :name::text

-- name: lock_job
SELECT {{job_columns}} FROM {p}job j WHERE j.kind = :kind::bigint AND j.name = :name::text FOR UPDATE

-- name: lock_job_of_number
SELECT {{job_columns}} FROM {p}job j WHERE j.number = :number::bigint FOR UPDATE

-- name: insert_job
INSERT INTO {p}job (next_at, skip_before, created_at, updated_at, kind, name, topic, definition, payload)
SELECT coalesce(:next_at::bigint, 0), coalesce(:skip_before::bigint, 0), :created_at::bigint, :created_at::bigint, :kind::bigint,
       :name::text, :topic::text, :definition::text, :payload::bytea
    ON CONFLICT DO NOTHING
RETURNING number

-- name: save_job
UPDATE {p}job SET paused = :paused::boolean, next_at = coalesce(:next_at::bigint, 0), skip_before = coalesce(:skip_before::bigint, 0),
                  tick_seq = :tick_seq::bigint, tick = :tick::uuid, updated_at = :updated_at::bigint, topic = :topic::text,
                  definition = :definition::text, payload = :payload::bytea
 WHERE number = :number::bigint

-- name: delete_job
DELETE FROM {p}job WHERE number = :number::bigint

-- name: list_jobs
SELECT {{job_columns}} FROM {p}job j
 WHERE j.kind = :kind::bigint AND j.number > :after::bigint ORDER BY j.number LIMIT :limit::bigint

-- name: jobs_of_ticks
SELECT {{job_columns}} FROM {p}job j
 WHERE j.tick_seq = ANY (:seqs::bigint[]) AND j.tick_seq <> 0 ORDER BY j.number FOR UPDATE

-- name: forget_followed
DELETE FROM {p}join_member WHERE number = 0 AND role = :role::bigint AND seq = ANY (:seqs::bigint[])

-- fragment: run_columns
number, id, job, nominal_at, kind, state, covers_from, covers, seq, message, created_at, started_at, ended_at, attempts, reason

-- name: add_run
INSERT INTO {p}job_run (nominal_at, covers_from, covers, created_at, ended_at, kind, state, id, job, reason)
SELECT :nominal_at::bigint, :covers_from::bigint, :covers::bigint, :created_at::bigint, coalesce(:ended_at::bigint, 0),
       :kind::bigint, :state::bigint, :id::uuid, :job::text, :reason::text
    ON CONFLICT DO NOTHING
RETURNING number

-- name: save_run
UPDATE {p}job_run SET state = :state::bigint, seq = :seq::bigint, message = :message::uuid,
                      started_at = coalesce(:started_at::bigint, 0), ended_at = coalesce(:ended_at::bigint, 0),
                      attempts = :attempts::bigint, reason = :reason::text
 WHERE number = :number::bigint

-- name: open_runs
SELECT {{run_columns}} FROM {p}job_run
 WHERE job = :job::text AND state <= 1 AND kind <> 3 ORDER BY state DESC, nominal_at LIMIT :limit::bigint

-- name: runs_of_messages
SELECT {{run_columns}} FROM {p}job_run WHERE seq = ANY (:seqs::bigint[]) AND seq <> 0 ORDER BY number FOR UPDATE

-- name: find_run
SELECT {{run_columns}} FROM {p}job_run WHERE id = :id::uuid

-- fragment: page_of_runs
(:state::bigint IS NULL OR state = :state::bigint) AND number < :before::bigint ORDER BY number DESC LIMIT :limit::bigint

-- name: list_runs
SELECT {{run_columns}} FROM {p}job_run WHERE {{page_of_runs}}

-- name: list_runs_of_job
SELECT {{run_columns}} FROM {p}job_run WHERE job = :job::text AND {{page_of_runs}}

-- name: remove_ended_runs
WITH gone AS (
    DELETE FROM {p}job_run WHERE number = ANY (ARRAY (
        SELECT number FROM {p}job_run WHERE ended_at <> 0 AND ended_at <= (SELECT {p}clock(:now::bigint)) - :age::bigint
         ORDER BY ended_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED))
    RETURNING seq),
unfollowed AS (DELETE FROM {p}join_member WHERE number = 0 AND role = 4 AND seq = ANY (ARRAY (SELECT seq FROM gone)))
SELECT pg_catalog.count(*) FROM gone

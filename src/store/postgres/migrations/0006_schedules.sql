-- Scheduled jobs and timers, and their executions. Times are microseconds since 1970, UTC; 0 means "never", and an empty
-- text "none".

-- kind: 0 a job · 1 a timer. `definition` is everything but topic and payload, as JSON.
-- `tick_seq` is the message that waits for `next_at`; it has a row in join_member with role 5 and number 0.
CREATE TABLE {p}job (
    number      bigint   PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    next_at     bigint   NOT NULL DEFAULT 0,
    skip_before bigint   NOT NULL DEFAULT 0,
    tick_seq    bigint   NOT NULL DEFAULT 0,
    created_at  bigint   NOT NULL,
    updated_at  bigint   NOT NULL,
    kind        smallint NOT NULL,
    paused      boolean  NOT NULL DEFAULT false,
    tick        uuid,
    name        text     COLLATE "C" NOT NULL,
    topic       text     NOT NULL,
    definition  text     NOT NULL,
    payload     bytea    NOT NULL
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX job_name ON {p}job (kind, name);
CREATE INDEX        job_tick ON {p}job (tick_seq) WHERE tick_seq <> 0;

-- One row per job and instant, or one for several instants in a row that did not run.
-- state: 0 waits for its turn · 1 enqueued · 3 done · 4 failed · 5 cancelled · 6 skipped · 7 coalesced
-- kind: 0 scheduled · 1 triggered · 2 backfilled · 3 of a timer
-- The message of a run has a row in join_member with role 4 and number 0, until it is done.
CREATE TABLE {p}job_run (
    number      bigint   PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    nominal_at  bigint   NOT NULL,
    covers_from bigint   NOT NULL,
    covers      bigint   NOT NULL,
    seq         bigint   NOT NULL DEFAULT 0,
    created_at  bigint   NOT NULL,
    started_at  bigint   NOT NULL DEFAULT 0,
    ended_at    bigint   NOT NULL DEFAULT 0,
    attempts    integer  NOT NULL DEFAULT 0,
    kind        smallint NOT NULL,
    state       smallint NOT NULL,
    id          uuid     NOT NULL,
    message     uuid,
    job         text     COLLATE "C" NOT NULL,
    reason      text     NOT NULL DEFAULT ''
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX job_run_instant ON {p}job_run (job, nominal_at);
CREATE UNIQUE INDEX job_run_id      ON {p}job_run (id);
CREATE INDEX        job_run_job     ON {p}job_run (job, number);
CREATE INDEX        job_run_seq     ON {p}job_run (seq) WHERE seq <> 0;
CREATE INDEX        job_run_open    ON {p}job_run (job, state, nominal_at) WHERE state <= 1;
CREATE INDEX        job_run_ended   ON {p}job_run (ended_at) WHERE ended_at <> 0;

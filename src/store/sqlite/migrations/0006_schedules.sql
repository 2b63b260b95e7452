-- Scheduled jobs and timers, and their executions.

-- kind: 0 a job · 1 a timer. `definition` is everything but topic and payload, as JSON.
-- `tick_seq` is the message that waits for `next_at`; it has a row in join_member with role 5 and number 0.
CREATE TABLE {p}job (
    number      INTEGER PRIMARY KEY,
    kind        INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    paused      INTEGER NOT NULL DEFAULT 0,
    next_at     INTEGER,
    skip_before INTEGER,
    tick_seq    INTEGER NOT NULL DEFAULT 0,
    tick        BLOB,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    topic       TEXT    NOT NULL,
    definition  TEXT    NOT NULL,
    payload     BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX {p}job_name ON {p}job (kind, name);
CREATE INDEX        {p}job_tick ON {p}job (tick_seq) WHERE tick_seq <> 0;

-- One row per job and instant, or one for several instants in a row that did not run.
-- state: 0 waits for its turn · 1 enqueued · 3 done · 4 failed · 5 cancelled · 6 skipped · 7 coalesced
-- kind: 0 scheduled · 1 triggered · 2 backfilled · 3 of a timer
-- The message of a run has a row in join_member with role 4 and number 0, until it is done.
CREATE TABLE {p}job_run (
    number      INTEGER PRIMARY KEY,
    id          BLOB    NOT NULL,
    job         TEXT    NOT NULL,
    nominal_at  INTEGER NOT NULL,
    kind        INTEGER NOT NULL,
    state       INTEGER NOT NULL,
    covers_from INTEGER NOT NULL,
    covers      INTEGER NOT NULL,
    seq         INTEGER NOT NULL DEFAULT 0,
    message     BLOB,
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    ended_at    INTEGER,
    attempts    INTEGER NOT NULL DEFAULT 0,
    reason      TEXT
) STRICT;
CREATE UNIQUE INDEX {p}job_run_instant ON {p}job_run (job, nominal_at);
CREATE UNIQUE INDEX {p}job_run_id      ON {p}job_run (id);
CREATE INDEX        {p}job_run_job     ON {p}job_run (job);
CREATE INDEX        {p}job_run_seq     ON {p}job_run (seq) WHERE seq <> 0;
CREATE INDEX        {p}job_run_open    ON {p}job_run (job, state, nominal_at) WHERE state <= 1;
CREATE INDEX        {p}job_run_ended   ON {p}job_run (ended_at) WHERE ended_at IS NOT NULL;

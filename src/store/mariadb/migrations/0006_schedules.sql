-- Scheduled jobs and timers, and their executions.
--
-- Every step may be repeated.

-- kind: 0 a job · 1 a timer. `definition` is everything but topic and payload, as JSON.
-- `tick_seq` is the message that waits for `next_at`; it has a row in join_member with role 5 and number 0.
CREATE TABLE IF NOT EXISTS {p}job (
    number      BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    kind        TINYINT        NOT NULL,
    name        VARBINARY(255) NOT NULL,
    paused      TINYINT        NOT NULL DEFAULT 0,
    next_at     BIGINT,
    skip_before BIGINT,
    tick_seq    BIGINT,
    tick        BINARY(16),
    created_at  BIGINT         NOT NULL,
    updated_at  BIGINT         NOT NULL,
    topic       VARBINARY(255) NOT NULL,
    definition  MEDIUMBLOB     NOT NULL,
    payload     LONGBLOB       NOT NULL,
    UNIQUE KEY {p}job_name (kind, name),
    KEY {p}job_tick (tick_seq)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'Posthorn';

-- One row per job and instant, or one for several instants in a row that did not run.
-- state: 0 waits for its turn · 1 enqueued · 3 done · 4 failed · 5 cancelled · 6 skipped · 7 coalesced
-- kind: 0 scheduled · 1 triggered · 2 backfilled · 3 of a timer
-- The message of a run has a row in join_member with role 4 and number 0, until it is done.
CREATE TABLE IF NOT EXISTS {p}job_run (
    number      BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id          BINARY(16)     NOT NULL,
    job         VARBINARY(255) NOT NULL,
    nominal_at  BIGINT         NOT NULL,
    kind        TINYINT        NOT NULL,
    state       TINYINT        NOT NULL,
    covers_from BIGINT         NOT NULL,
    covers      BIGINT         NOT NULL,
    seq         BIGINT,
    message     BINARY(16),
    created_at  BIGINT         NOT NULL,
    started_at  BIGINT,
    ended_at    BIGINT,
    attempts    INT            NOT NULL DEFAULT 0,
    reason      BLOB,
    UNIQUE KEY {p}job_run_instant (job, nominal_at),
    UNIQUE KEY {p}job_run_id (id),
    KEY {p}job_run_job (job, number),
    KEY {p}job_run_seq (seq),
    KEY {p}job_run_open (job, state, nominal_at),
    KEY {p}job_run_ended (ended_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'Posthorn';

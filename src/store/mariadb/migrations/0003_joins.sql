-- Joins. The tables of messages know nothing of them, but for a flag of batches: whether somebody may follow the end of
-- one of their members. So a batch of which nobody does is settled without asking.
--
-- Every step may be repeated.

ALTER TABLE {p}batch ADD COLUMN IF NOT EXISTS followed TINYINT NOT NULL DEFAULT 0;

-- state: 0 pending · 1 completed · 2 failed · 3 cancelled; ended_by: 0 its members · 1 its deadline · 2 a cancel
CREATE TABLE IF NOT EXISTS {p}joins (
    number              BIGINT     NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id                  BINARY(16) NOT NULL,
    state               TINYINT    NOT NULL DEFAULT 0,
    ended_by            TINYINT    NOT NULL DEFAULT 0,
    expected            BIGINT,
    needed              BIGINT,
    any_failure_fails   TINYINT    NOT NULL,
    attached            BIGINT     NOT NULL DEFAULT 0,
    completed           BIGINT     NOT NULL DEFAULT 0,
    failed              BIGINT     NOT NULL DEFAULT 0,
    reopened            INT        NOT NULL DEFAULT 0,
    created_at          BIGINT     NOT NULL,
    updated_at          BIGINT     NOT NULL,
    deadline_at         BIGINT,
    ended_at            BIGINT,
    grouping_key        VARBINARY(255),
    correlation_id      VARBINARY(255),
    metadata            MEDIUMBLOB,
    on_complete_topic   VARBINARY(255),
    on_complete_payload LONGBLOB,
    on_fail_topic       VARBINARY(255),
    on_fail_payload     LONGBLOB,
    UNIQUE KEY {p}joins_id (id),
    KEY {p}joins_state (state, number),
    KEY {p}joins_group (grouping_key, number),
    KEY {p}joins_ended (ended_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'Posthorn';

-- role: 0 a member · 1 the deadline, which expires and never runs · 2 waits for the join, and runs after it
-- state: 0 open · 1 completed · 2 failed · 3 the join ended without it
CREATE TABLE IF NOT EXISTS {p}join_member (
    number      BIGINT     NOT NULL,
    role        TINYINT    NOT NULL,
    seq         BIGINT     NOT NULL,
    state       TINYINT    NOT NULL,
    id          BINARY(16) NOT NULL,
    attached_at BIGINT     NOT NULL,
    settled_at  BIGINT,
    PRIMARY KEY (number, role, seq),
    KEY {p}join_member_seq (seq)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'Posthorn';

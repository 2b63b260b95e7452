-- Joins. The tables of messages know nothing of them.

-- state: 0 pending · 1 completed · 2 failed · 3 cancelled; ended_by: 0 its members · 1 its deadline · 2 a cancel
CREATE TABLE {p}joins (
    number              INTEGER PRIMARY KEY,
    id                  BLOB    NOT NULL,
    state               INTEGER NOT NULL DEFAULT 0,
    ended_by            INTEGER NOT NULL DEFAULT 0,
    expected            INTEGER,
    needed              INTEGER,
    any_failure_fails   INTEGER NOT NULL,
    attached            INTEGER NOT NULL DEFAULT 0,
    completed           INTEGER NOT NULL DEFAULT 0,
    failed              INTEGER NOT NULL DEFAULT 0,
    reopened            INTEGER NOT NULL DEFAULT 0,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    deadline_at         INTEGER,
    ended_at            INTEGER,
    grouping_key        TEXT,
    correlation_id      TEXT,
    metadata            BLOB,
    on_complete_topic   TEXT,
    on_complete_payload BLOB,
    on_fail_topic       TEXT,
    on_fail_payload     BLOB
) STRICT;
CREATE UNIQUE INDEX {p}joins_id    ON {p}joins (id);
CREATE INDEX        {p}joins_state ON {p}joins (state);
CREATE INDEX        {p}joins_group ON {p}joins (grouping_key) WHERE grouping_key IS NOT NULL;
CREATE INDEX        {p}joins_ended ON {p}joins (ended_at) WHERE ended_at IS NOT NULL;

-- role: 0 a member · 1 the deadline, which expires and never runs · 2 waits for the join, and runs after it
-- state: 0 open · 1 completed · 2 failed · 3 the join ended without it
CREATE TABLE {p}join_member (
    number      INTEGER NOT NULL,
    role        INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    state       INTEGER NOT NULL,
    id          BLOB    NOT NULL,
    attached_at INTEGER NOT NULL,
    settled_at  INTEGER,
    PRIMARY KEY (number, role, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX {p}join_member_seq ON {p}join_member (seq);

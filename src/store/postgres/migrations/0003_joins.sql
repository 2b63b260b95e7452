-- Joins. Times are microseconds since 1970, UTC; 0 means "never", and an empty text "none".
--
-- The tables of messages know nothing of joins. But the quick way to settle a batch of plain messages must not pass a
-- member of a join by: a message whose end is followed is not plain, it has a place of its own (1, or 5 while it is
-- claimed) and is listed among its batch's others.

-- state: 0 pending · 1 completed · 2 failed · 3 cancelled; ended_by: 0 its members · 1 its deadline · 2 a cancel
CREATE TABLE {p}joins (
    number              bigint   PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    created_at          bigint   NOT NULL,
    updated_at          bigint   NOT NULL,
    attached            bigint   NOT NULL DEFAULT 0,
    completed           bigint   NOT NULL DEFAULT 0,
    failed              bigint   NOT NULL DEFAULT 0,
    state               smallint NOT NULL DEFAULT 0,
    ended_by            smallint NOT NULL DEFAULT 0,
    reopened            integer  NOT NULL DEFAULT 0,
    any_failure_fails   boolean  NOT NULL,
    id                  uuid     NOT NULL,
    expected            bigint,
    needed              bigint,
    deadline_at         bigint   NOT NULL DEFAULT 0,
    ended_at            bigint   NOT NULL DEFAULT 0,
    grouping_key        text     NOT NULL DEFAULT '',
    correlation_id      text     NOT NULL DEFAULT '',
    metadata            bytea    NOT NULL DEFAULT '',
    on_complete_topic   text,
    on_complete_payload bytea,
    on_fail_topic       text,
    on_fail_payload     bytea
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX joins_id    ON {p}joins (id);
CREATE INDEX        joins_state ON {p}joins (state, number);
CREATE INDEX        joins_group ON {p}joins (grouping_key, number) WHERE grouping_key <> '';
CREATE INDEX        joins_ended ON {p}joins (ended_at) WHERE ended_at <> 0;

-- role: 0 a member · 1 the deadline, which expires and never runs · 2 waits for the join, and runs after it
-- state: 0 open · 1 completed · 2 failed · 3 the join ended without it
CREATE TABLE {p}join_member (
    number      bigint   NOT NULL,
    seq         bigint   NOT NULL,
    attached_at bigint   NOT NULL,
    settled_at  bigint   NOT NULL DEFAULT 0,
    role        smallint NOT NULL,
    state       smallint NOT NULL,
    id          uuid     NOT NULL,
    PRIMARY KEY (number, role, seq)
) WITH (fillfactor = 70);
CREATE INDEX join_member_seq ON {p}join_member (seq);

-- Joins with members in other stores.

-- On the side of a member: to whom its end is reported. Its row in `join_member` has the number 0 and the role 6.
CREATE TABLE {p}join_report (
    seq     bigint NOT NULL,
    join_id uuid   NOT NULL,
    store   text   NOT NULL,
    PRIMARY KEY (seq, store, join_id)
);

-- On the side of the join: what has been reported. state: as the join counts it, 0 open · 1 completed · 2 failed · 3 it
-- came after the join's end, and is not attached; reported: as its store said last, in the report of this version.
CREATE TABLE {p}join_remote (
    number   bigint   NOT NULL REFERENCES {p}joins (number) ON DELETE CASCADE,
    version  bigint   NOT NULL,
    id       uuid     NOT NULL,
    state    smallint NOT NULL,
    reported smallint NOT NULL,
    store    text     NOT NULL,
    PRIMARY KEY (number, id)
);

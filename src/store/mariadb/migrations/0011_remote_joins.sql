-- Joins with members in other stores. Every step may be repeated.

-- On the side of a member: to whom its end is reported. Its row in `join_member` has the number 0 and the role 6.
CREATE TABLE IF NOT EXISTS {p}join_report (
    seq     BIGINT         NOT NULL,
    store   VARBINARY(255) NOT NULL,
    join_id BINARY(16)     NOT NULL,
    PRIMARY KEY (seq, store, join_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'Posthorn';

-- On the side of the join: what has been reported. state: as the join counts it, 0 open · 1 completed · 2 failed · 3 it
-- came after the join's end, and is not attached; reported: as its store said last, in the report of this version.
CREATE TABLE IF NOT EXISTS {p}join_remote (
    number   BIGINT         NOT NULL,
    id       BINARY(16)     NOT NULL,
    store    VARBINARY(255) NOT NULL,
    state    TINYINT        NOT NULL,
    reported TINYINT        NOT NULL,
    version  BIGINT         NOT NULL,
    PRIMARY KEY (number, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'Posthorn';

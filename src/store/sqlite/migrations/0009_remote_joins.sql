-- Joins with members in other stores.

-- On the side of a member: to whom its end is reported. Its row in `join_member` has the number 0 and the role 6.
CREATE TABLE {p}join_report (
    seq     INTEGER NOT NULL,
    store   TEXT    NOT NULL,
    join_id BLOB    NOT NULL,
    PRIMARY KEY (seq, store, join_id)
) STRICT, WITHOUT ROWID;

-- On the side of the join: what has been reported. state: as the join counts it, 0 open · 1 completed · 2 failed · 3 it
-- came after the join's end, and is not attached; reported: as its store said last, in the report of this version.
CREATE TABLE {p}join_remote (
    number   INTEGER NOT NULL,
    id       BLOB    NOT NULL,
    store    TEXT    NOT NULL,
    state    INTEGER NOT NULL,
    reported INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    PRIMARY KEY (number, id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER {p}join_removed AFTER DELETE ON {p}joins
BEGIN
    DELETE FROM {p}join_remote WHERE number = OLD.number;
END;
